package postgres_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// TestPgBouncerIsRefused in each of its modes that share connections between clients, also when it
// is configured to ignore unknown settings.
func TestPgBouncerIsRefused(t *testing.T) {
	t.Parallel()
	server := migrated.Start(t)
	for name, lines := range map[string]string{
		"transaction mode":                    "pool_mode = transaction",
		"session mode":                        "pool_mode = session",
		"transaction mode, ignoring settings": "pool_mode = transaction\nignore_startup_parameters = jit,enable_seqscan,enable_bitmapscan",
		"session mode, ignoring settings":     "pool_mode = session\nignore_startup_parameters = jit,enable_seqscan,enable_bitmapscan",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := postgres.Open(t.Context(), postgres.Config{URL: startPgBouncer(t, server, lines)})
			if !errors.Is(err, postgres.ErrPooler) {
				t.Errorf("says %v", err)
			}
		})
	}
}

// startPgBouncer runs a real one in front of the server and returns the URL to use instead.
func startPgBouncer(t *testing.T, serverURL, lines string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !executable(program) {
			t.Skip("PgBouncer is not installed; scripts/test-deps.sh installs it where it may")
		}
	}
	server, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(porttest.Address(t))
	dir := t.TempDir()
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\n%s\n",
		server.Port(), server.User.Username(), port, lines)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} { // so that its user may enter them
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, exec.Command(program, ini), "process up")
	server.Host = "127.0.0.1:" + port
	if c, err := pgx.Connect(t.Context(), server.String()); err != nil {
		t.Fatalf("PgBouncer does not pass ordinary clients on: %v", err)
	} else {
		_ = c.Close(t.Context())
	}
	return server.String()
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

// run starts a program, not as root, and waits until it prints that it is ready; it ends with the
// test.
func run(t *testing.T, cmd *exec.Cmd, until string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, drained := make(chan struct{}), make(chan struct{})
	var said strings.Builder // read after it was drained
	go func() {
		defer close(drained)
		waiting := true
		for lines := bufio.NewScanner(says); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if waiting && strings.Contains(lines.Text(), until) {
				close(ready)
				waiting = false
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-drained:
		t.Fatalf("%s ended at once: %s", cmd.Path, &said)
	case <-time.After(20 * time.Second):
		t.Fatalf("%s never said %q", cmd.Path, until)
	}
}
