package installer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/installer"
)

// serve serves the installer with programs for other processors, and returns its URL and their
// folder.
func serve(t *testing.T) (url, dist string) {
	t.Helper()
	dist = t.TempDir()
	for _, platform := range []string{"amd64", "arm64", "armv7"} {
		program(t, dist, platform, "a program for "+platform)
	}
	h, err := installer.New(dist, guard.Proxies(nil).OverTLS, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, pattern := range h.Routes() {
		mux.Handle(pattern, h)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, dist
}

func program(t *testing.T, dist, platform, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dist, "bloom-linux-"+platform), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestProgramsHaveTheirChecksums(t *testing.T) {
	t.Parallel()
	url, dist := serve(t)
	for _, text := range []string{"a program for arm64", "a newer one"} {
		program(t, dist, "arm64", text)
		if status, got := get(t, url+"/download/bloom-linux-arm64", ""); status != 200 || got != text {
			t.Fatal(status, got)
		}
		hash := sha256.Sum256([]byte(text))
		if _, sums := get(t, url+"/download/SHA256SUMS", ""); !strings.Contains(sums, hex.EncodeToString(hash[:])+"  bloom-linux-arm64\n") {
			t.Fatalf("the checksums of %q: %s", text, sums)
		}
	}
	for _, missing := range []string{"bloom-linux-riscv64", "installer.go", "..%2finstaller.go", "%2e%2e"} {
		if status, text := get(t, url+"/download/"+missing, ""); status != 404 {
			t.Errorf("%s: %d %s", missing, status, text)
		}
	}
}

func TestTheScriptNamesTheServerAndNothingThatAHostSmugglesIn(t *testing.T) {
	t.Parallel()
	url, _ := serve(t)
	for _, host := range []string{"bloom.example.org", "10.0.0.1:5000", "[fd00::1]:5000"} {
		if status, text := get(t, url+"/install.sh", host); status != 200 || !strings.Contains(text, "server=http://"+host+" ") || strings.Contains(text, "@SERVER@") {
			t.Errorf("%s: %d %s", host, status, text)
		}
	}
	for _, host := range []string{"a;reboot", "$(reboot)", "a'b", "-x"} {
		if status, text := get(t, url+"/install.sh", host); status != 400 || strings.Contains(text, host) {
			t.Errorf("%s: %d %s", host, status, text)
		}
	}
}

func TestOnlyATrustedProxySaysThatACallerCameOverTLS(t *testing.T) {
	t.Parallel()
	for network, scheme := range map[string]string{"192.0.2.0/24": "https", "10.0.0.0/8": "http"} {
		h, err := installer.New("", guard.Proxies{netip.MustParsePrefix(network)}.OverTLS, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/install.sh", http.NoBody)
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header.Set("X-Forwarded-Proto", "https")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), "server="+scheme+"://"+r.Host+" ") {
			t.Errorf("with %s as a proxy: %d %s", network, w.Code, w.Body)
		}
	}
}

// install runs the script like root on a Raspberry Pi.
func install(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	_, script := get(t, url+"/install.sh", "")
	return runScript(t, script, "0", "Linux", "aarch64", args...)
}

// runScript runs a script with programs on the PATH that replace the user and the machine, and
// checks that no temporary file is left.
func runScript(t *testing.T, script, user, system, machine string, args ...string) (string, error) {
	t.Helper()
	bin, temporary := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"id": "echo " + user, "uname": `[ "$1" = -s ] && echo ` + system + ` || echo ` + machine} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-s", "--"}, args...)...)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + temporary}
	out, err := cmd.CombinedOutput()
	if left, readErr := os.ReadDir(temporary); readErr != nil || len(left) > 0 {
		t.Errorf("the script leaves %v: %v", left, readErr)
	}
	return string(out), err
}

// TestTheScriptStopsBeforeItChangesAnything where it cannot finish, also if it was not fetched whole.
func TestTheScriptStopsBeforeItChangesAnything(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	url, dist := serve(t)
	program(t, dist, "arm64", "#!/bin/sh\n[ \"$1\" != --version ] || exit 126\necho \"called with: $*\"\n")
	_, script := get(t, url+"/install.sh", "")
	half := strings.TrimSuffix(script, "main \"$@\"\n")
	if half == script {
		t.Fatal("the script does not end with its only call")
	}
	for want, run := range map[string][4]string{
		"sudo sh": {script, "1000", "Linux", "aarch64"}, "built for Linux": {script, "0", "Darwin", "arm64"}, "does not run from": {script, "0", "Linux", "aarch64"},
		"does not run on 32-bit ARM": {script, "0", "Linux", "armv7l"}, "": {half, "0", "Linux", "aarch64"},
	} {
		out, err := runScript(t, run[0], run[1], run[2], run[3], "--key", "s3cret")
		if (err == nil) != (want == "") || !strings.Contains(out, want) || want == "" && out != "" || strings.Contains(out, "called with") {
			t.Errorf("want %q: %v %s", want, err, out)
		}
	}
}

func TestTheScriptInstallsWhatItVerified(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	url, dist := serve(t)
	program(t, dist, "arm64", "#!/bin/sh\nfor last; do [ ! -f \"$last\" ] || stat -c 'mode %a' \"$last\"; done\necho \"called with: $*\"\n")
	out, err := install(t, url, "--key", "s3cret", "--name", "pi", "--max-concurrency", "1")
	if err != nil || !strings.Contains(out, "mode 600\n") || !strings.Contains(out, "called with: service install worker --set BLOOM_RUNTIME_URL="+url+
		" --set BLOOM_WORKER_NAME=pi --set BLOOM_MAX_CONCURRENCY=1 --worker-key-file ") || !strings.Contains(out, " --now") {
		t.Fatal(err, out)
	}
	for want, args := range map[string][]string{
		"unknown option --keys": {"--keys", "x"}, "--key needs a value": {"--key"}, "not both": {"--key", "a", "--key-file", "b"}, "cannot be read": {"--key-file", "/none"}, "/none.pem cannot be read": {"--ca-file", "/none.pem"},
	} {
		if out, err := install(t, url, args...); err == nil || !strings.Contains(out, want) || strings.Contains(out, "called with") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}

func TestTheScriptRefusesADamagedProgram(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	url, _ := serve(t)
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, text := get(t, url+r.URL.Path, r.Host)
		if strings.HasPrefix(r.URL.Path, "/download/bloom") {
			text = "#!/bin/sh\necho called with it\n"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer bad.Close()
	if out, err := install(t, bad.URL, "--key", "s3cret"); err == nil || !strings.Contains(out, "damaged") || strings.Contains(out, "called with") {
		t.Fatal(err, out)
	}
}

func TestWithoutAFolderThereIsThisProgramAlone(t *testing.T) {
	t.Parallel()
	if _, err := installer.New(t.TempDir(), nil, nil); err == nil {
		t.Error("an empty folder is taken")
	}
	h, err := installer.New("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/download/SHA256SUMS", http.NoBody)
	r.SetPathValue("file", "SHA256SUMS")
	h.ServeHTTP(w, r)
	if got := w.Body.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "  bloom-linux-"+map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armv7"}[runtime.GOARCH]+"\n") {
		t.Error(got)
	}
}
