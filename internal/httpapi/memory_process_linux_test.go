package httpapi_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mostMemory is the maximum memory of a server under any of the attacks, in bytes.
const mostMemory = 300 << 20

// process is a server in a separate process, built without the race detector, which multiplies
// memory.
type process struct {
	*fixture
	cmd *exec.Cmd
}

// built is the program without the race detector, built once, with the flags of make build, so that
// most of it is in the build cache.
var built = sync.OnceValues(func() (path string, err error) {
	if programs, err = os.MkdirTemp("", "bloom-httpapi-"); err != nil {
		return "", err
	}
	path = filepath.Join(programs, "bloom")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "../../cmd/bloom")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// startProcess runs `bloom server`. BLOOM_TEST_SERVER selects another binary, to try the attacks on
// an older version.
func startProcess(t *testing.T) *process {
	t.Helper()
	return startWithFiles(t, 20_000)
}

// startWithFiles is startProcess with a limit of open files.
func startWithFiles(t *testing.T, files int) *process {
	t.Helper()
	dir := t.TempDir()
	binary := os.Getenv("BLOOM_TEST_SERVER")
	if binary == "" {
		var err error
		binary, err = built()
		must(t, err)
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d 2>/dev/null; exec "$@"`, files), "sh", binary, "server", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	cmd.Env = []string{"RUNTIME_API_KEY=" + adminKey, "RUNTIME_WORKER_KEY=" + workerKey, "HOME=" + dir, "GOMAXPROCS=2"}
	said, err := cmd.StderrPipe()
	must(t, err)
	cmd.Stdout = cmd.Stderr
	must(t, cmd.Start())
	address := make(chan string, 1)
	var lines sync.WaitGroup
	lines.Go(func() {
		find := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
		for scan := bufio.NewScanner(said); scan.Scan(); {
			if url := find.FindString(scan.Text()); url != "" && len(address) == 0 {
				address <- url
			}
		}
	})
	r := &fixture{t: t, dir: dir, key: adminKey, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGKILL)
		lines.Wait()
		_ = cmd.Wait()
	})
	select {
	case r.url = <-address:
	case <-time.After(3 * time.Minute):
		t.Fatal("the server does not say where it listens")
	}
	return &process{fixture: r, cmd: cmd}
}

// memory returns the peak memory of the process, in bytes.
func (p *process) memory() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(p.t, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	must(p.t, err)
	return kb << 10
}

func (p *process) staysSmall(attack string) {
	p.t.Helper()
	got := p.memory()
	p.t.Logf("%s: at most %d MB", attack, got>>20)
	if got > mostMemory {
		p.t.Errorf("%s took %d MB", attack, got>>20)
	}
}

// held creates a task that a worker holds.
func (p *process) held() (taskID, leaseID string) {
	p.t.Helper()
	task := p.task("")
	l := p.lease(task.ID)
	return task.ID, l.Lease.ID
}
