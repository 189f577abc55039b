package front_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bloom-runtime/bloom/internal/front"
)

// limit bounds an exchange.
const limit = 20 * time.Second

// exchange sends bytes, one by one or together, and returns a line for each response until the
// connection ends: the status, what the handler read, "closed" if announced.
func exchange(t *testing.T, conn net.Conn, sent string, slowly bool) string {
	t.Helper()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	var in io.Reader = strings.NewReader(sent)
	if slowly {
		in = iotest.OneByteReader(in)
	}
	go func() { _, _ = io.CopyBuffer(struct{ io.Writer }{conn}, in, make([]byte, 1<<16)) }()
	var answers []string
	for r := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return strings.Join(answers, ", ")
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		answers = append(answers, fmt.Sprintf("%d %s", res.StatusCode, text))
		if res.Close {
			return strings.Join(append(answers, "closed"), ", ")
		}
	}
}

func TestALengthIsStatedOnce(t *testing.T) {
	t.Parallel()
	plain, secure, redirect, private := listen(t), listen(t), listen(t), listen(t)
	files := filesIn(t.TempDir())
	certificate(t, files, 1)
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})
	open(t, front.Config{Listener: plain}).Handle(echo)
	open(t, front.Config{Listener: secure, TLS: files, Redirect: redirect, Private: private}).Handle(echo)

	const (
		length  = "Content-Length: 5\r\n"
		chunked = "transfer-encoding: chunked\r\n"
		chunks  = "5\r\nhello\r\n0\r\n\r\n"
		refused = "400 400 Bad Request, closed"
		first   = "POST /1 HTTP/1.1\r\nHost: a\r\n"
		last    = "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	)
	for name, c := range map[string]struct{ sent, want string }{
		"both":                           {first + length + chunked + "\r\n" + chunks, refused},
		"both, the other way":            {first + chunked + "X: y\r\n" + length + "\r\n" + chunks, refused},
		"twice the same":                 {first + length + "content-LENGTH: 5\r\n\r\nhello", refused},
		"twice chunked":                  {first + chunked + chunked + "\r\n" + chunks, refused},
		"line feeds alone":               {strings.ReplaceAll(first+length+chunked, "\r", "") + "\n" + chunks, refused},
		"in a second request":            {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" + first + length + chunked + "\r\n" + chunks, "200 /1 , " + refused},
		"after a body":                   {first + length + "\r\nhello" + first + length + length + "\r\nhello", "200 /1 hello, " + refused},
		"after a body and an empty line": {first + length + "\r\nhello\r\n" + first + length + length + "\r\nhello", "200 /1 hello, " + refused},
		"after chunks":                   {first + chunked + "\r\n" + chunks + first + length + length + "\r\nhello", "200 /1 hello, closed"},
		"after an older request":         {"POST /1 HTTP/1.0\r\nConnection: keep-alive\r\n" + chunked + "\r\n" + first + length + length + "\r\n", "200 /1 , closed"},
		"once":                           {first + length + "\r\nhello" + first + length + "\r\nHELLO" + last, "200 /1 hello, 200 /1 HELLO, 200 /2 , closed"},
		"in a value":                     {first + "X: Content-Length: 9\r\n" + "Y: a\r\n Transfer-Encoding: chunked\r\n" + length + "\r\nhello" + last, "200 /1 hello, 200 /2 , closed"},
		"a body like headers":            {first + "Content-Length: 39\r\n\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r" + last, "200 /1 Content-Length: 5\r\nContent-Length: 5\r\n\r, 200 /2 , closed"},
	} {
		for _, slowly := range []bool{false, true} {
			t.Run(fmt.Sprint(name, slowly), func(t *testing.T) {
				t.Parallel()
				for where, conn := range map[string]net.Conn{"plain": dial(t, plain), "private": dial(t, private), "TLS": tls.Client(dial(t, secure), insecure)} {
					if got := exchange(t, conn, c.sent, slowly); got != c.want {
						t.Errorf("%s: got %q, want %q", where, got, c.want)
					}
				}
			})
		}
	}
	if got := exchange(t, dial(t, redirect), first+length+chunked+"\r\n"+chunks, false); got != refused {
		t.Errorf("redirect: %q", got)
	}
}

// Over TLS, also for clients that would rather have HTTP/2, handlers see the state of the TLS connection, and a body
// arrives unchanged, whatever it looks like. A plain HTTP request gets an explanation.
func TestHTTPOverTLS(t *testing.T) {
	t.Parallel()
	secure, files := listen(t), filesIn(t.TempDir())
	certificate(t, files, 1)
	open(t, front.Config{Listener: secure, TLS: files}).Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			t.Errorf("%s: the handler hears of %v", r.Proto, r.TLS)
		}
		_, _ = w.Write(body)
	}))
	at := secure.Addr().String()
	sent := strings.Repeat("POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 1000)
	for _, second := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: second}
		t.Cleanup(transport.CloseIdleConnections)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+at+"/", strings.NewReader(sent))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if string(got) != sent || err != nil || res.ProtoMajor != 1 || res.Header.Get("Strict-Transport-Security") == "" {
					t.Errorf("%s: %d of %d bytes, %v, %v", res.Proto, len(got), len(sent), err, res.Header)
				}
			})
		}
		all.Wait()
	}
	if status, text := get(t, at, "/"); status != 400 || !strings.Contains(text, "an HTTPS server") {
		t.Errorf("plain HTTP: %d %s", status, text)
	}
}

var insecure = &tls.Config{InsecureSkipVerify: true}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestARefusalDoesNotWaitForTheBody sends less of a body than announced to a handler that does not
// read it: the response arrives, and the connection ends.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"length": "Content-Length: 100\r\n\r\nx", "chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			open(t, front.Config{Listener: l}).Handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
			}))
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+head); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 401 ") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
