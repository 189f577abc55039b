package front_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/front"
)

// ask sends a request over a connection that stays open, and returns the status.
func ask(t *testing.T, conn net.Conn, path string) int {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}

// closed waits until the other side has closed a connection.
func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection was kept")
	}
}

// When all connections are used by clients that send nothing, or half a request, the next one is
// served: the one that has been idle longest is closed. Connections with active requests of known
// callers are never closed.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		files, l := front.Files{}, listen(t)
		if secure {
			files = filesIn(t.TempDir())
			certificate(t, files, 1)
		}
		connect := func() net.Conn {
			conn := dial(t, l)
			if secure {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		begun, release := make(chan struct{}, 8), make(chan struct{})
		f := open(t, front.Config{Listener: l, TLS: files, MaxConnections: 4})
		f.Handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				front.Known(r)
				begun <- struct{}{}
				<-release
			}
		}))
		long := make(chan int, 4)
		for range 2 {
			conn := connect()
			go func() { long <- ask(t, conn, "/long") }()
			<-begun
		}
		idle := connect()
		if status := ask(t, idle, "/"); status != 200 {
			t.Fatal(status)
		}
		half := connect()
		if _, err := io.WriteString(half, "GET / HTTP/1.1\r\nHost: h\r\nX: "); err != nil {
			t.Fatal(err)
		}
		for range 20 { // each takes the place of the previous one
			if status := ask(t, connect(), "/"); status != 200 {
				t.Fatalf("secure %t: a new connection is answered %d", secure, status)
			}
		}
		closed(t, idle)
		closed(t, half)
		for range 2 { // requests on every connection
			conn := connect()
			go func() { long <- ask(t, conn, "/long") }()
			<-begun
		}
		refused := connect()
		closed(t, refused)
		close(release)
		for range 4 {
			if status := <-long; status != 200 {
				t.Errorf("secure %t: an active request was answered %d", secure, status)
			}
		}
		if status := ask(t, connect(), "/"); status != 200 {
			t.Errorf("secure %t: afterwards a new connection is answered %d", secure, status)
		}
	}
}

// When slow readers without a key use all connections, callers with a key still get theirs, and keep
// them.
func TestStrangersThatReadSlowlyMakeRoom(t *testing.T) {
	t.Parallel()
	l := listen(t)
	begun, release := make(chan struct{}, 8), make(chan struct{})
	f := open(t, front.Config{Listener: l, MaxConnections: 3})
	f.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			begun <- struct{}{}
			<-r.Context().Done()
		case "/poll":
			front.Known(r)
			begun <- struct{}{}
			<-release
		}
	}))
	slow := func() net.Conn {
		conn := dial(t, l)
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
		return conn
	}
	oldest := slow()
	slow()
	slow()
	polls := make(chan int, 2)
	for range 2 {
		conn := dial(t, l)
		defer conn.Close()
		go func() { polls <- ask(t, conn, "/poll") }()
		<-begun
		slow() // takes the place of another stranger
	}
	closed(t, oldest)
	close(release)
	for range 2 {
		if status := <-polls; status != 200 {
			t.Errorf("a request with a key was answered %d", status)
		}
	}
}
