package front_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/front"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// certificate writes one with that serial number, in two files, or an invalid one.
func certificate(t *testing.T, files front.Files, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	write(t, files.Certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func filesIn(dir string) front.Files {
	return front.Files{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
}

func open(t *testing.T, c front.Config) *front.Front {
	t.Helper()
	c.HTTP, c.Logger = &http.Server{}, slog.New(slog.DiscardHandler)
	f, err := front.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// serial returns the serial number of the certificate that a new connection gets.
func serial(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestACertificateFollowsItsFiles(t *testing.T) {
	t.Parallel()
	files := filesIn(t.TempDir())
	certificate(t, files, 1)
	l := listen(t)
	open(t, front.Config{Listener: l, TLS: files})
	if got := serial(t, l.Addr().String()); got != 1 {
		t.Fatalf("certificate %d, want 1", got)
	}
	write(t, files.Certificate, "half a certifi") // a partly written file
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); {
		if got := serial(t, l.Addr().String()); got != 1 {
			t.Fatalf("certificate %d while the file is broken", got)
		}
	}
	certificate(t, files, 2)
	for limit := time.Now().Add(time.Minute); serial(t, l.Addr().String()) != 2; {
		if time.Now().After(limit) {
			t.Fatal("the new certificate was never shown")
		}
	}
}

func TestWithoutACertificateThereIsNoStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filesIn(dir)
	certificate(t, good, 1)
	write(t, filepath.Join(dir, "empty"), "")
	for name, files := range map[string]front.Files{
		"missing":          {Certificate: filepath.Join(dir, "none"), Key: good.Key},
		"missing key":      {Certificate: good.Certificate, Key: filepath.Join(dir, "none")},
		"no certificate":   {Certificate: good.Key, Key: good.Key},
		"empty authority":  {Certificate: good.Certificate, Key: good.Key, ClientCA: filepath.Join(dir, "empty")},
		"absent authority": {Certificate: good.Certificate, Key: good.Key, ClientCA: filepath.Join(dir, "none")},
	} {
		l := listen(t)
		f, err := front.Open(t.Context(), front.Config{Listener: l, TLS: files, HTTP: &http.Server{}, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			t.Errorf("%s: it started", name)
			_ = f.Close()
			continue
		}
		if err := l.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: it still listens", name)
		}
	}
}

// Both sides refuse TLS older than 1.2: servers and clients.
func TestOlderTLSIsRefused(t *testing.T) {
	t.Parallel()
	files := filesIn(t.TempDir())
	certificate(t, files, 1)
	secure := listen(t)
	open(t, front.Config{Listener: secure, TLS: files}).Handle(http.NotFoundHandler())
	for version, taken := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", secure.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != taken {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	old.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	defer old.Close()
	ours, err := front.Client(files.Certificate, "", "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := tls.Dial("tcp", old.Listener.Addr().String(), ours); err == nil || !strings.Contains(err.Error(), "version") {
		if err == nil {
			conn.Close()
		}
		t.Errorf("a server of TLS 1.1: %v", err)
	}
}

// get sends a request over plain HTTP and returns the status and the body.
func get(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func TestRequestsWaitForAServerThatStarts(t *testing.T) {
	t.Parallel()
	l := listen(t)
	f := open(t, front.Config{Listener: l})
	addr := l.Addr().String()
	for _, path := range []string{"/readyz", "/health", "/api/runtime/health"} {
		if status, text := get(t, addr, path); status != 503 || !strings.Contains(text, `"status":"starting","request_id":"`) {
			t.Errorf("%s before there is a handler: %d %s", path, status, text)
		}
	}
	answered := make(chan int, 1)
	go func() { status, _ := get(t, addr, "/work"); answered <- status }()
	f.Handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	if status := <-answered; status != http.StatusTeapot {
		t.Errorf("the request that waited: %d", status)
	}
	f.Drain()
	if status, text := get(t, addr, "/readyz"); status != 503 || !strings.Contains(text, "draining") {
		t.Errorf("/readyz while draining: %d %s", status, text)
	}
	if status, _ := get(t, addr, "/work"); status != http.StatusTeapot {
		t.Errorf("work while draining: %d", status)
	}
	if err := f.Shutdown(context.Background(), func() {}); err != nil {
		t.Error(err)
	}
}

func TestAStartThatTakesTooLongIsReported(t *testing.T) {
	t.Parallel()
	l := listen(t)
	open(t, front.Config{Listener: l, Starting: 50 * time.Millisecond})
	if status, text := get(t, l.Addr().String(), "/work"); status != 503 || !strings.Contains(text, `"code":"unavailable"`) {
		t.Errorf("%d %s", status, text)
	}
}
