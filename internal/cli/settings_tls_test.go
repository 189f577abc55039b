package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func tlsScenes() map[string]scene {
	withKeys := []string{"--runtime-api-key=" + serverKey, "--runtime-worker-key=" + workerKey}
	return map[string]scene{
		"certificate": {roles: servers, also: withKeys, before: func(s *stage) { s.certificate() }, sets: []set{
			{"--tls-cert", "{dir}/cert.pem", answersOverTLS},
			{"--tls-key", "{dir}/key.pem", answersOverTLS},
			{"--tls-client-ca", "{dir}/cert.pem", wantsWorkersCertificates},
			{"--http-redirect", "127.0.0.1:{port}", func(s *stage) {
				location, _ := s.secure(nil, "GET", s.values.Replace("http://127.0.0.1:{port}/readyz?a=b"), "")
				if location.StatusCode != http.StatusPermanentRedirect || location.Header.Get("Location") != s.url()+"/readyz?a=b" {
					s.Errorf("redirected with %d to %q", location.StatusCode, location.Header.Get("Location"))
				}
				refused, text := s.secure(nil, "POST", s.values.Replace("http://127.0.0.1:{port}/api/runtime/llm-tasks"), serverKey)
				if refused.StatusCode != http.StatusForbidden || !strings.Contains(text, "https_required") {
					s.Errorf("a POST over plain HTTP: %d %s", refused.StatusCode, text)
				}
			}},
		}},
		"acme": {roles: servers, also: withKeys, before: (*stage).authority, sets: []set{
			{"--acme-domain", "one.example", asksAuthority(`{"type":"dns","value":"one.example"}`)},
			{"--acme-email", "ops@example.org", asksAuthority(`mailto:ops@example.org`)},
			{"--acme-directory", "https://127.0.0.1:{port}/dir", asksAuthority(`/dir`)},
			{"--acme-roots", "{dir}/cert.pem", asksAuthority(`/dir`)},
		}},
		"connections": {roles: []string{"server", "membridge", "up"}, sets: []set{{"--max-connections", "16", func(s *stage) {
			address := strings.TrimPrefix(s.url(), "http://")
			var first net.Conn
			for range 40 { // idle connections make room for new ones
				conn, err := net.Dial("tcp", address)
				if err != nil {
					s.Fatal(err)
				}
				s.Cleanup(func() { conn.Close() })
				if first == nil {
					first = conn
				}
			}
			s.wants(200, "GET", s.url()+"/health", "")
			if err := first.SetDeadline(time.Now().Add(stageLimit)); err != nil {
				s.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, first); errors.Is(err, os.ErrDeadlineExceeded) {
				s.Error("the connection that was idle longest is open")
			}
			s.says(`too many connections`)
		}}}},
		"shutdown delay": {roles: servers, sets: []set{{"--shutdown-delay", "1500ms", func(s *stage) {
			if s.role == "up" {
				s.says(`membridge, the control plane`)
			}
			s.wants(200, "GET", s.url()+"/readyz", "")
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			s.await("readiness to fail", func() bool { status, _ := s.call("GET", s.url()+"/readyz", ""); return status == 503 })
			s.wants(200, "GET", s.url()+"/health", "") // others are served in the meantime
			s.stop()
		}}}},
		"worker over TLS": {roles: []string{"worker"}, before: tlsBeforeRuntime, sets: []set{
			{"--url", "https://127.0.0.1:{port}", registered}, {"--ca-file", "{dir}/cert.pem", registered},
			{"--client-cert", "{dir}/cert.pem", registered}, {"--client-key", "{dir}/key.pem", registered},
		}},
	}
}

func registered(s *stage) { s.worker() }

// certificate creates a certificate for 127.0.0.1 that is its own authority, as cert.pem and
// key.pem.
func (s *stage) certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "bloom"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		s.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.Fatal(err)
	}
	cert, pair := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	s.file("key.pem", string(pair))
	s.file("cert.pem", string(cert))
	both, err := tls.X509KeyPair(cert, pair)
	if err != nil {
		s.Fatal(err)
	}
	return both
}

// pool trusts cert.pem.
func (s *stage) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(s.read("cert.pem")))
	return pool
}

// secure sends a request over TLS, trusting only cert.pem.
func (s *stage) secure(cert *tls.Certificate, method, to, key string) (*http.Response, string) {
	s.Helper()
	c := &tls.Config{RootCAs: s.pool()}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(s.Context(), method, to, strings.NewReader(`{"name":"w1","instance_id":"i1"}`))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("X-Runtime-API-Key", key)
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res, string(text)
}

func answersOverTLS(s *stage) {
	res, text := s.secure(nil, "GET", s.url()+"/api/runtime/stats", serverKey)
	if res.StatusCode != 200 || res.Header.Get("Strict-Transport-Security") == "" || !strings.HasPrefix(s.url(), "https://") {
		s.Errorf("over TLS: %d %s, %v", res.StatusCode, text, res.Header)
	}
	if s.role == "up" { // its own worker still reaches it
		s.await("the worker", func() bool {
			_, text := s.secure(nil, "GET", s.url()+"/api/runtime/workers", serverKey)
			return strings.Contains(text, `"status":"online"`)
		})
	}
}

func wantsWorkersCertificates(s *stage) {
	own, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem"))
	if err != nil {
		s.Fatal(err)
	}
	for _, one := range []struct {
		cert *tls.Certificate
		key  string
		want int
	}{{nil, workerKey, 401}, {&own, workerKey, 201}, {nil, serverKey, 200}} {
		if res, text := s.secure(one.cert, "POST", s.url()+"/api/runtime/workers", one.key); res.StatusCode != one.want {
			s.Errorf("with a certificate (%t): %d, want %d: %s", one.cert != nil, res.StatusCode, one.want, text)
		}
	}
	// The error for a missing certificate does not advise to get a key.
	p := newPerson(s, nil)
	p.env = map[string]string{"HOME": s.TempDir(), "BLOOM_RUNTIME_URL": s.url(), "BLOOM_API_KEY": workerKey, "BLOOM_CA_FILE": filepath.Join(s.dir, "cert.pem")}
	for _, args := range [][]string{{"workers"}, {"doctor", "--claude=/nowhere/claude", "--listen=127.0.0.1:0", "--data-dir", s.TempDir()}} {
		got := p.run(args...)
		if said := got.out + got.err; !strings.Contains(said, "--client-cert") || strings.Contains(said, "--key-file") {
			s.Errorf("bloom %s: %s", args[0], said)
		}
	}
}

// tlsBeforeRuntime puts TLS in front of the runtime and requires client certificates.
func tlsBeforeRuntime(s *stage) {
	cert := s.certificate()
	to, err := url.Parse(s.rt.URL)
	if err != nil {
		s.Fatal(err)
	}
	s.listenTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: s.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
		&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1})
}

func (s *stage) listenTLS(c *tls.Config, h http.Handler) {
	l, err := net.Listen("tcp", s.values.Replace("127.0.0.1:{port}"))
	if err != nil {
		s.Fatal(err)
	}
	front := httptest.NewUnstartedServer(h)
	front.Listener.Close()
	front.Listener, front.TLS = l, c
	front.StartTLS()
	s.Cleanup(front.Close)
}

// authority is an ACME directory that accepts accounts and refuses orders.
func (s *stage) authority() {
	base := s.values.Replace("https://127.0.0.1:{port}")
	s.listenTLS(&tls.Config{Certificates: []tls.Certificate{s.certificate()}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var signed struct{ Payload string }
		_ = json.NewDecoder(r.Body).Decode(&signed)
		payload, _ := base64.RawURLEncoding.DecodeString(signed.Payload)
		s.bridge.note(r, map[string]any{"asked": r.URL.Path + " " + string(payload)})
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Replay-Nonce", fmt.Sprint("nonce-", time.Now().UnixNano()))
		switch r.URL.Path {
		case "/dir":
			_ = json.NewEncoder(w).Encode(map[string]string{"newNonce": base + "/nonce", "newAccount": base + "/account", "newOrder": base + "/order"})
		case "/account":
			w.Header().Set("Location", base+"/account/1")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"status":"valid"}`)
		case "/order":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:unauthorized","detail":"not here"}`)
		}
	}))
}

// asksAuthority waits for a request with the text to the ACME directory.
func asksAuthority(text string) func(*stage) {
	return func(s *stage) {
		s.await("the authority to be asked "+text, func() bool {
			return s.bridge.count(func(r recorded) bool { asked, _ := r.body["asked"].(string); return strings.Contains(asked, text) }) > 0
		})
	}
}
