package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAServerNamesTheFileItCannotUse starts servers over a damaged database and over files
// that belong to somebody else, as after a restore by root: each says what is wrong with
// which file, and what to do.
func TestAServerNamesTheFileItCannotUse(t *testing.T) {
	t.Parallel()
	damaged := filepath.Join(t.TempDir(), "bloom.db")
	if err := os.WriteFile(damaged, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, damaged, "damaged", "restore a backup")
	for _, name := range []string{"bloom.db", "bloom.db-wal", "secret.key", "audit", "artifacts"} {
		dir, err := os.MkdirTemp("", "bloom-files-") // t.TempDir's is the test's user's alone
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, name)
		if name == "audit" || name == "artifacts" {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(dir, nobody, nobody))
		} else {
			err = errors.Join(err, os.Chmod(path, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		refuses(t, path, "permission denied", "change the owner")
	}
}

const nobody = 65534

// refuses starts a server over the folder of a file, as nobody where root tests.
func refuses(t *testing.T, path string, wants ...string) {
	t.Helper()
	dir := filepath.Dir(path)
	p := command(t, "server", []string{"HOME=" + dir, "RUNTIME_API_KEY=" + adminKey}, programs.bloom, "server", "--data-dir", dir, "--listen", "127.0.0.1:0", "--no-membridge")
	if os.Geteuid() == 0 && strings.Contains(wants[0], "permission") {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	code := p.start().wait()
	said := p.out.tail()
	for _, want := range append(wants, path) {
		if code == 0 || !strings.Contains(said, want) {
			t.Errorf("a server that cannot use %s ends with code %d and does not say %q: %s", path, code, want, said)
		}
	}
}
