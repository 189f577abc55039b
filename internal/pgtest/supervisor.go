package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superviseEnv tells a re-executed test binary to be the supervisor; its value
// is the folder of PostgreSQL's binaries.
const superviseEnv = "BLOOM_PGTEST_SUPERVISE"

const dirPrefix = "bloom-pgtest-"

// init turns the process into the supervisor before any test could run. It runs
// on the main thread, which lives as long as the process: PostgreSQL's
// parent-death signal is bound to that thread.
func init() {
	bin := os.Getenv(superviseEnv)
	if bin == "" {
		return
	}
	if err := supervise(bin); err != nil {
		fmt.Printf("error %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// supervise runs one server until standard input closes, then stops it and
// removes its folder.
func supervise(bin string) error {
	// An interrupt from the terminal reaches the whole group; the pipe decides.
	// Caught and dropped, not ignored: an ignored signal is inherited by children.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	sweep()
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cred, err := unprivileged(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "supervisor.pid"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return err
	}
	if err := initdb(bin, dir, cred); err != nil {
		return err
	}
	// The free port is known only after it was given back; another process can
	// take it in between, hence the tries.
	for range 5 {
		var cmd *exec.Cmd
		var port string
		if cmd, port, err = launch(bin, dir, cred); err != nil {
			continue
		}
		fmt.Printf("port %s\n", port)
		os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return stop(cmd)
	}
	return err
}

// unprivileged gives the folder to a user that PostgreSQL accepts: it refuses to
// run as root. Elsewhere the present user does.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return nil, errors.New("running as root, and there is neither a postgres nor a nobody user to run PostgreSQL as")
}

func initdb(bin, dir string, cred *syscall.Credential) error {
	cmd := command(cred, dir, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"),
		"-U", dbUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %.300q", err, out)
	}
	return nil
}

// launch starts the server and waits until it answers or has ended.
func launch(bin, dir string, cred *syscall.Credential) (*exec.Cmd, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	// -F: no fsync. Data must survive the death of processes, not of the machine.
	cmd := command(cred, dir, filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-F",
		"-h", "127.0.0.1", "-p", port, "-k", dir, "-c", "shared_buffers=32MB", "-c", "max_connections=200",
		"-c", "full_page_writes=off")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	ended := make(chan struct{})
	go func() { _, _ = cmd.Process.Wait(); close(ended) }()
	url := (&server{port: port}).url("postgres")
	for range 600 {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return nil, "", fmt.Errorf("postgres ended at once: %.500q", text)
		case <-time.After(50 * time.Millisecond):
		}
		if answers(url) {
			return cmd, port, nil
		}
	}
	return nil, "", errors.Join(errors.New("postgres did not answer within 30 s"), cmd.Process.Kill())
}

// command prepares a child that dies with the supervisor, even when that one is
// killed: SIGQUIT is PostgreSQL's immediate shutdown.
func command(cred *syscall.Credential, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return cmd
}

// answers reports whether the server takes connections. It also makes sure that
// it is ours: a stranger on the same port would not know the user.
func answers(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

func stop(cmd *exec.Cmd) error {
	_ = cmd.Process.Signal(syscall.SIGQUIT)
	for range 100 {
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// sweep removes folders whose supervisor no longer lives: those of a machine
// that lost power, or of a supervisor that was killed itself.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "supervisor.pid"))
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(string(text))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		_ = os.RemoveAll(dir)
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
