// Package miniotest gives tests a real object storage, MinIO or the Versity S3 gateway: on
// a free loopback port, in a temporary folder, ended with the test, and also when the test
// binary is killed.
// It is for tests only and must never be imported by the product.
package miniotest

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
	"github.com/bloom-runtime/bloom/internal/porttest"
)

// startLimit bounds how long the server may take to come up on a busy machine.
const startLimit = 2 * time.Minute

const user, password = "minio-test", "minio-test-secret" //nolint:gosec // of a server that lives as long as a test

// Server is one server.
type Server struct {
	// Endpoint is its host:port, which it keeps over Stop and Start.
	Endpoint string
	program  []string
	env      []string
	health   string // path that answers 200 when it is up
	stop     func()
	signal   func(os.Signal) error
}

// shared is the server that tests have in common while there are any.
var shared struct {
	mu    sync.Mutex
	users int
	*Server

	dir string
}

// Shared is a MinIO server that other tests of the binary use at the same time, in buckets
// of their own. It must not be stopped or frozen.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		dir, err := os.MkdirTemp("", "miniotest-")
		if err != nil {
			t.Fatal(err)
		}
		shared.dir, shared.Server = dir, start(t, dir)
	}
	shared.users++
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			shared.Stop()
			_ = os.RemoveAll(shared.dir)
		}
	})
	return shared.Server
}

// Start starts a MinIO server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := start(t, t.TempDir())
	t.Cleanup(s.Stop)
	return s
}

func start(t testing.TB, dir string) *Server {
	t.Helper()
	address := porttest.Address(t)
	s := &Server{Endpoint: address, health: "/minio/health/cluster",
		program: []string{binary(t, "minio"), "server", "--quiet", "--address", address, "--console-address", "127.0.0.1:0", dir},
		env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "MINIO_ROOT_USER=" + user, "MINIO_ROOT_PASSWORD=" + password,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=on"}}
	s.Start(t)
	return s
}

// StartVersity starts a Versity S3 gateway on a folder that ends with the test. It is
// another program than MinIO, by other people, with the same protocol.
func StartVersity(t testing.TB) *Server {
	t.Helper()
	data, meta, address := t.TempDir(), t.TempDir(), porttest.Address(t)
	s := &Server{Endpoint: address, health: "/health",
		// In a folder beside: not every file system of a test has extended attributes.
		program: []string{binary(t, "versitygw"), "--port", address, "--health", "/health", "--quiet", "posix", "--sidecar", meta, data},
		env:     []string{"HOME=" + data, "PATH=" + os.Getenv("PATH"), "ROOT_ACCESS_KEY=" + user, "ROOT_SECRET_KEY=" + password}}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Bucket returns access to a bucket that is this test's alone and not made yet.
func (s *Server) Bucket() objects.Config {
	return objects.Config{Endpoint: s.Endpoint, AccessKey: user, SecretKey: password, Bucket: "t-" + strings.ToLower(rand.Text())}
}

// Stop kills the server, as a power failure would; its folder stays.
func (s *Server) Stop() { s.stop() }

// Freeze makes the server hang: connections are accepted and nothing is answered.
func (s *Server) Freeze() { _ = s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { _ = s.signal(syscall.SIGCONT) }

// Start starts a stopped server again, with what it held.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	// The context only ends with the test; Stop ends the server before.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), s.program[0], s.program[1:]...)
	cmd.Env = s.env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the death signal follows the thread that starts the process
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("miniotest: %v", err)
	}
	s.signal = cmd.Process.Signal
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	for !alive(ctx, "http://"+s.Endpoint+s.health) {
		select {
		case <-ended:
			t.Fatalf("miniotest: the server ended: %s", &output)
		case <-ctx.Done():
			s.stop()
			t.Fatalf("miniotest: the server did not come up: %s", &output)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func alive(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// began is the folder of the package whose tests run.
var began, _ = os.Getwd()

// binary finds a server that scripts/test-deps.sh builds.
func binary(t testing.TB, name string) string {
	t.Helper()
	for dir := began; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("miniotest: there is no .tools/bin/%s above %s: run `make tools`, which builds it", name, began)
		}
	}
}
