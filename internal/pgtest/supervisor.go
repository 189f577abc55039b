package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superviseEnv makes a re-executed test binary the supervisor; its value is the folder of
// PostgreSQL's binaries.
const superviseEnv = "BLOOM_PGTEST_SUPERVISE"

const dirPrefix = "bloom-pgtest-"

// init turns the process into the supervisor before any test runs. It runs
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

// supervise runs one server and the commands from standard input until that closes; then it stops
// everything and removes the folder.
func supervise(bin string) error {
	// An interrupt from the terminal reaches the whole process group, but only the pipe ends the
	// supervisor. The signal is caught and dropped: children would inherit an ignored signal.
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
	first := &node{bin: bin, dir: dir, name: primary, cred: cred}
	if err := first.initdb(); err != nil {
		return err
	}
	if err := first.begin(); err != nil {
		return err
	}
	fmt.Printf("port %s\n", first.port)
	nodes := map[string]*node{primary: first}
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if err := execute(nodes, strings.Fields(orders.Text())); err != nil {
			fmt.Printf("error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	for _, n := range nodes {
		err = errors.Join(err, n.stop(syscall.SIGQUIT))
	}
	return err
}

// unprivileged changes the folder's owner if the test runs as root, which PostgreSQL refuses.
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

// command prepares a child that dies with the supervisor, even when that one is
// killed: SIGQUIT is PostgreSQL's immediate shutdown.
func command(cred *syscall.Credential, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return cmd
}

// answers reports whether the server accepts connections. It also verifies the server's identity:
// another one on the same port would not know the user.
func answers(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// sweep removes folders whose supervisor has died, for example after a power failure or kill -9.
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
