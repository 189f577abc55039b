package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/client"
)

// TestARestartBehindASocketRefusesNobody passes the server its socket, as systemd does for
// bloom-runtime.socket, and restarts it under load. Requests without retries, each on its own
// connection, are all answered, long polls and streams end in order, and the init system is
// notified when the server is ready.
func TestARestartBehindASocketRefusesNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	h.url = "http://" + l.Addr().String()
	if h.api, err = client.New(h.url, client.Options{APIKey: adminKey}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.api.Close)

	first := h.handed(t, socket)
	stop := make(chan struct{})
	var asked atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			transport := &http.Transport{DisableKeepAlives: true}
			for {
				select {
				case <-stop:
					return
				default:
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/runtime/stats", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Runtime-API-Key", adminKey)
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Errorf("request %d: %v", asked.Load(), err)
					return
				}
				if res.Body.Close(); res.StatusCode != http.StatusOK {
					t.Errorf("request %d: %s", asked.Load(), res.Status)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 3 {
		before := asked.Load()
		eventually(t, "some requests are answered", func() bool { return asked.Load() > before+20 })
		if code := first.terminate(); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		first = h.handed(t, socket)
	}
	close(stop)
	load.Wait()
	t.Logf("%d requests over 3 restarts", asked.Load())
}

// handed starts the server with the socket as systemd would, and waits until it reports that it is
// ready.
func (h *harness) handed(t *testing.T, socket *os.File) *proc {
	t.Helper()
	path := filepath.Join(t.TempDir(), "n") // a socket's path is short
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	// The shell's process becomes the server's, so that its id is right.
	p := &proc{t: t, name: "server", out: newOutput(), done: make(chan struct{}), cmd: exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`,
		programs.bloom, "server", "--data-dir", filepath.Join(h.dir, "server"), "--listen", "127.0.0.1:1")}
	p.cmd.Env = h.env("RUNTIME_API_KEY="+adminKey, "RUNTIME_WORKER_KEY="+workerKey, "LISTEN_FDS=1", "LISTEN_FDNAMES=listen", "NOTIFY_SOCKET="+path)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = p.out, p.out, []*os.File{socket}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the code is read from the state
		p.out.close()
	}()
	h.servers = append(h.servers, p)
	_ = notify.SetReadDeadline(time.Now().Add(patience))
	message := make([]byte, 100)
	n, err := notify.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Fatal(fmt.Sprintf("received %q", message[:n]), err, p.out.tail())
	}
	return p
}
