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

// TestAServerNamesTheFileItCannotUse starts servers with a damaged database and with files that
// belong to another user, as after a restore by root: each says which file is wrong, why, and what
// to do.
func TestAServerNamesTheFileItCannotUse(t *testing.T) {
	t.Parallel()
	damaged := filepath.Join(t.TempDir(), "bloom.db")
	if err := os.WriteFile(damaged, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, damaged, "damaged", "restore a backup")
	for _, name := range []string{"bloom.db", "bloom.db-wal", "secret.key", "audit", "artifacts"} {
		dir, err := os.MkdirTemp("", "bloom-files-") // t.TempDir belongs to the test's user
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

// refuses starts a server on the folder of a file, as nobody when root runs the test.
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
