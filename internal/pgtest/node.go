package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/porttest"
)

// Names of the servers that a supervisor runs.
const (
	primary = "primary"
	standby = "standby"
)

// node is one server of a supervisor.
type node struct {
	bin, dir, name string
	cred           *syscall.Credential
	port           string // chosen at the first start
	cmd            *exec.Cmd
	ended          chan struct{} // closed when cmd has ended
}

// execute executes one command from the test: "stop NAME MODE", "start NAME", or "standby". Each is
// answered with one line.
func execute(nodes map[string]*node, order []string) error {
	if len(order) == 0 {
		return errors.New("an empty order")
	}
	n := nodes[primary]
	if len(order) > 1 {
		n = nodes[order[1]]
	}
	if n == nil {
		return fmt.Errorf("there is no %s", order[1])
	}
	switch order[0] {
	case "stop":
		how := map[string]syscall.Signal{"fast": syscall.SIGINT, "immediate": syscall.SIGQUIT}[order[2]]
		if err := n.stop(how); err != nil {
			return err
		}
	case "start":
		if err := n.begin(); err != nil {
			return err
		}
	case "standby":
		second := &node{bin: n.bin, dir: n.dir, name: standby, cred: n.cred}
		if err := second.copyOf(n); err != nil {
			return err
		}
		if err := second.begin(); err != nil {
			return err
		}
		nodes[standby], n = second, second
	default:
		return fmt.Errorf("unknown order %q", order[0])
	}
	fmt.Printf("port %s\n", n.port)
	return nil
}

func (n *node) data() string { return filepath.Join(n.dir, n.name) }

func (n *node) initdb() error {
	return n.run("initdb", "-D", n.data(), "-U", dbUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// copyOf creates a standby's folder, which replicates from the other server under its own name.
func (n *node) copyOf(of *node) error {
	return n.run("pg_basebackup", "-D", n.data(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%s user=%s application_name=%s", of.port, dbUser, n.name))
}

func (n *node) run(program string, args ...string) error {
	cmd := command(n.cred, n.dir, filepath.Join(n.bin, program), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300q", program, err, out)
	}
	return nil
}

// begin starts the server, at its first start on a free port. Other programs of the machine may take
// the port in between; hence the retries.
func (n *node) begin() error {
	if n.port != "" {
		return n.launch(n.port)
	}
	var err error
	for range 5 {
		address, failed := porttest.Find()
		if failed != nil {
			return failed
		}
		_, port, _ := net.SplitHostPort(address)
		if err = n.launch(port); err == nil {
			n.port = port
			return nil
		}
	}
	return err
}

// launch starts the server and waits until it answers or has ended.
func (n *node) launch(port string) error {
	log, err := os.OpenFile(filepath.Join(n.dir, n.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", n.data(), "-h", "127.0.0.1", "-p", port, "-k", n.dir, "-c", "shared_buffers=32MB", "-c", "max_connections=200"}
	if os.Getenv(durableEnv) == "" {
		// No fsync: data must survive the death of processes, not of the machine.
		args = append(args, "-F", "-c", "full_page_writes=off")
	}
	cmd := command(n.cred, n.dir, filepath.Join(n.bin, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _, _ = cmd.Process.Wait(); close(ended) }()
	n.cmd, n.ended = cmd, ended
	url := (&server{port: port}).url("postgres")
	for range 3000 {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("postgres ended at once: %.500q", text[max(0, len(text)-500):])
		case <-time.After(10 * time.Millisecond):
		}
		if answers(url) {
			return nil
		}
	}
	return errors.Join(errors.New("postgres did not answer within 30 s"), n.stop(syscall.SIGKILL))
}

// stop ends the server: SIGINT is a clean shutdown, SIGQUIT a crash. It does nothing if the server
// has already ended.
func (n *node) stop(how syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = n.cmd.Process.Signal(how)
	select {
	case <-n.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("postgres did not end within 30 s"), syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL))
	}
}
