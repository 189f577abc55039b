package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// newcomer is a person with an empty home folder and only the binary.
type newcomer struct {
	home string
	vars []string
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	return &newcomer{home: t.TempDir()}
}

func (n *newcomer) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs.bloom, args...)
	cmd.Dir = n.home
	cmd.Env = append([]string{"HOME=" + n.home, "PATH=" + os.Getenv("PATH")}, n.vars...)
	return cmd
}

func (n *newcomer) bloom(t *testing.T, args ...string) call {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := n.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return call{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (n *newcomer) config(t *testing.T, lines string) {
	t.Helper()
	dir := filepath.Join(n.home, ".config", "bloom")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs a server until the test ends and returns its address and a function that returns its
// output so far.
func (n *newcomer) start(t *testing.T, args ...string) (url string, printed func() string) {
	t.Helper()
	var out lockedBuffer
	cmd := n.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); <-ended })
	address := regexp.MustCompile(`(?:listens at|BLOOM Runtime) +(http://\S+?),?\s`)
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if m := address.FindStringSubmatch(out.String()); m != nil {
			return m[1], out.String
		}
	}
	t.Fatalf("bloom %v does not start:\n%s", args, out.String())
	return "", nil
}

// lockedBuffer is a buffer that is read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
