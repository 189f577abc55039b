package deploy_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packages builds a release for some processors into a folder. It runs the command first
// beforehand, as root of a machine with its own name.
func packages(t *testing.T, version, archs, formats, first string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("unshare", "--uts", "sh", "-c", first+` && exec ../scripts/packages.sh "$0"`, dir)
	cmd.Env = append(os.Environ(), "VERSION="+version, "ARCHS="+archs, "FORMATS="+formats)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packages.sh: %v\n%s", err, out)
	}
	return dir
}

// TestPackages builds the packages, twice to compare the bytes, and inspects each. It installs,
// upgrades and removes the deb and the rpm with the real dpkg and rpm on a bare Debian under
// systemd, and the content of the apk on a BusyBox root under OpenRC. It takes minutes: make
// test-packages.
func TestPackages(t *testing.T) {
	if os.Getenv("BLOOM_TEST_PACKAGES") == "" {
		t.Skip("builds releases; make test-packages runs it")
	}
	needs(t, "openrc-run", "unshare", "nsenter", "systemd-nspawn", "busybox", "ip", "curl", "rpm", "cpio")
	root := debian(t)
	old := packages(t, "v1.0.0", "amd64 arm64 armv7", "apk deb rpm", "true")
	// Another machine, and a later checkout.
	same := packages(t, "v1.0.0", "amd64 arm64 armv7", "apk deb rpm", "hostname elsewhere && touch packages/*.sh")
	next := packages(t, "v1.0.1", "amd64", "apk deb rpm", "true")
	sums := func(dir string) string {
		raw, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if a, b := sums(old), sums(same); a != b || strings.Count(a, "\n") != 3*6+2 {
		t.Errorf("two builds of one commit differ:\n%s\n%s", a, b)
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
	check.Dir = old
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the checksums are wrong: %v\n%s", err, out)
	}
	for _, arch := range processors {
		for format, unpack := range unpackers {
			t.Run(arch.name+" "+format, func(t *testing.T) {
				inspect(t, one(t, old, "*"+arch.label[format]+"."+format), unpack, arch.machine, arch.goarm)
			})
		}
	}
	bill, err := os.ReadFile(filepath.Join(old, "bloom-linux-amd64.cdx.json"))
	for _, part := range []string{"pkg:golang/modernc.org/sqlite@", "pkg:npm/react@", "pkg:npm/%40tanstack/react-query@"} {
		if err != nil || !strings.Contains(string(bill), part) {
			t.Errorf("the bill of materials lacks %s: %v", part, err)
		}
	}
	for script, args := range map[string][]string{
		"deb.sh": {one(t, old, "*_amd64.deb"), one(t, next, "*.deb"), root},
		"rpm.sh": {one(t, old, "*.x86_64.rpm"), one(t, next, "*.rpm"), root},
		"apk.sh": {one(t, old, "*_x86_64.apk"), one(t, next, "*.apk")},
	} {
		out := isolated(t, script, args...)
		for _, want := range []string{"installed", "upgraded", "removed"} {
			if !strings.Contains(out, "ok: "+want+"\n") {
				t.Errorf("%s did not get to %q:\n%s", script, want, out)
			}
		}
	}
}

// one returns the only file of a folder that a pattern matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, dir, found, err)
	}
	return found[0]
}

// processors are the supported ones, with their names in each package format.
var processors = []struct {
	name    string
	machine elf.Machine
	goarm   string
	label   map[string]string
}{
	{"amd64", elf.EM_X86_64, "", map[string]string{"apk": "_x86_64", "deb": "_amd64", "rpm": ".x86_64"}},
	{"arm64", elf.EM_AARCH64, "", map[string]string{"apk": "_aarch64", "deb": "_arm64", "rpm": ".aarch64"}},
	{"armv7", elf.EM_ARM, "7", map[string]string{"apk": "_armv7", "deb": "_armhf", "rpm": ".armv7hl"}},
}

// unpackers unpack the package $0 here, and print the processor that it names.
var unpackers = map[string]string{
	"apk": `tar -xzf "$0" 2>/dev/null && sed -n 's/^arch = /_/p' .PKGINFO`,
	"deb": `dpkg-deb -x "$0" . && echo "_$(dpkg-deb -f "$0" Architecture)"`,
	"rpm": `rpm -K --nosignature "$0" >/dev/null && rpm2cpio "$0" | cpio -id --quiet --no-absolute-filenames && rpm -qp --qf '.%{ARCH}' "$0"`,
}

// inspect checks that a package has the program for the processor in its metadata and name, and
// that every file has the right mode.
func inspect(t *testing.T, path, unpack string, machine elf.Machine, goarm string) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", unpack, path)
	cmd.Dir = dir
	arch, err := cmd.Output()
	name := strings.TrimSuffix(path, filepath.Ext(path))
	if err != nil || !strings.HasSuffix(name, strings.TrimSpace(string(arch))) {
		t.Errorf("%s is for %q: %v", path, arch, err)
	}
	for file, mode := range map[string]os.FileMode{
		"usr/bin/bloom": 0o755, "etc/init.d/bloom-runtime": 0o755, "etc/init.d/bloom-membridge": 0o755, "etc/init.d/bloom-worker": 0o755, "etc/init.d/bloom-memory": 0o755,
		"etc/logrotate.d/bloom": 0o644, "usr/lib/systemd/system/bloom-runtime.service": 0o644, "usr/lib/systemd/system/bloom-runtime.socket": 0o644,
		"usr/lib/systemd/system/bloom-membridge.service": 0o644, "usr/lib/systemd/system/bloom-worker.service": 0o644, "usr/lib/systemd/system/bloom-memory@.service": 0o644,
		"usr/lib/sysusers.d/bloom.conf": 0o644, "usr/lib/tmpfiles.d/bloom.conf": 0o644, "usr/share/doc/bloom-runtime/alerts.yaml": 0o644,
		"usr/share/doc/bloom-runtime/third-party-licenses.txt": 0o644, "usr/share/bash-completion/completions/bloom": 0o644, "usr/share/zsh/site-functions/_bloom": 0o644, "usr/share/fish/vendor_completions.d/bloom.fish": 0o644, "usr/share/man/man1/bloom.1.gz": 0o644,
	} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	program := filepath.Join(dir, "usr/bin/bloom")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	libraries, err := f.ImportedLibraries()
	if f.Machine != machine || len(libraries) != 0 || err != nil {
		t.Errorf("the program is for %s and loads %v: %v", f.Machine, libraries, err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "GOARM" && s.Value != goarm {
			t.Errorf("the program is built for ARM version %s", s.Value)
		}
	}
	emulator := map[elf.Machine]string{elf.EM_AARCH64: "qemu-aarch64-static", elf.EM_ARM: "qemu-arm-static"}[machine]
	if _, err := exec.LookPath(emulator); emulator == "" || err != nil {
		return // this machine cannot run it
	}
	if out, err := exec.Command(emulator, program, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "bloom 1.0.0 ") {
		t.Errorf("the program says %q: %v", out, err)
	}
}
