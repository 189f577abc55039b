package app_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/porttest"
)

// selfSigned writes a certificate for this machine and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// TestEveryListenerBoundsHeadersAndTheirTime: on each listener of a server and of membridge,
// including the redirecting one, headers of more than 32 KB are refused with 431, and a client that
// does not send them completely loses the connection.
func TestEveryListenerBoundsHeadersAndTheirTime(t *testing.T) {
	t.Parallel()
	redirect := porttest.Address(t)
	cfg := upConfig(t, t.TempDir())
	cert, private := selfSigned(t)
	cfg.Server.TLSCert, cfg.Server.TLSKey, cfg.Server.HTTPRedirect = cert, private, redirect
	cfg.Membridge.TLSCert, cfg.Membridge.TLSKey = cert, private
	plain := upConfig(t, t.TempDir())
	during(t, cfg, func(secure *app.Up) {
		during(t, plain, func(up *app.Up) {
			ended := make(chan struct{})
			at := map[string]string{"server": up.Server.URL(), "membridge": up.Membridge.URL(), "server, TLS": secure.Server.URL(), "membridge, TLS": secure.Membridge.URL(), "redirect": "http://" + redirect}
			for name, url := range at {
				go func() {
					defer func() { ended <- struct{}{} }()
					boundsHeaders(t, name, url)
				}()
			}
			for range at {
				<-ended
			}
		})
	})
}

func boundsHeaders(t *testing.T, name, url string) {
	scheme, address, _ := strings.Cut(url, "://")
	send := func(text string) net.Conn {
		conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			t.Error(name, err)
			return nil
		}
		if scheme == "https" {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		}
		if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Error(name, err)
		}
		go func() { _, _ = io.WriteString(conn, text) }() // may be cut
		return conn
	}
	status := func(path, header string) int {
		conn := send("GET " + path + " HTTP/1.1\r\nHost: h\r\nX-Long: " + header + "\r\n\r\n")
		if conn == nil {
			return 0
		}
		defer conn.Close()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Error(name, err)
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, path := range []string{"/health", "/metrics"} {
		if got := status(path, strings.Repeat("x", 30<<10)); got == 431 || got == 0 {
			t.Errorf("%s %s: headers of 30 KB are answered with %d", name, path, got)
		}
		if got := status(path, strings.Repeat("x", 40<<10)); got != 431 {
			t.Errorf("%s %s: headers of 40 KB are answered with %d", name, path, got)
		}
	}
	conn := send("GET /health HTTP/1.1\r\nHost: h\r\nX-Half: ")
	if conn == nil {
		return
	}
	defer conn.Close()
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: a connection with half a request is kept", name)
	}
}

// What is added to the commands for a new worker comes from here.
func TestHealthHasWhatAWorkersCommandNeeds(t *testing.T) {
	t.Parallel()
	cfg := upConfig(t, t.TempDir())
	cfg.Server.TLSCert, cfg.Server.TLSKey = selfSigned(t)
	cfg.Server.NoMembridge = true
	during(t, cfg, func(up *app.Up) {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer caller.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, up.Server.URL()+"/health", http.NoBody)
		must(t, err)
		req.Header.Set("X-Runtime-API-Key", string(cfg.Server.RuntimeAPIKey))
		res, err := caller.Do(req)
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		if !strings.Contains(string(body), `"private_ca":true`) || !strings.Contains(string(body), `"disabled":true`) {
			t.Errorf("%s", body)
		}
	})
}
