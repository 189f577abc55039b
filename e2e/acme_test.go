package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/porttest"
)

// TestACertificateComesFromAnAuthority has the server obtain its certificate from Pebble, Let's
// Encrypt's test authority, which validates as the real one does: over TLS, and over plain HTTP where
// that is redirected. After a restart the server has the certificate without the authority.
func TestACertificateComesFromAnAuthority(t *testing.T) {
	t.Parallel()
	for name, overTLS := range map[string]bool{"validated over TLS": true, "validated over plain HTTP": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			validated, plain := h.reserve(), porttest.Address(t)
			if !overTLS {
				validated = porttest.Address(t) // nobody listens there
			}
			ca := h.pebble(validated, plain)
			args := []string{"--acme-domain", "bloom.example.org", "--acme-email", "ops@example.org", "--acme-directory", ca.directory, "--acme-roots", ca.root,
				"--tls-client-ca", newAuthority(t, t.TempDir()).file}
			if !overTLS {
				args = append(args, "--http-redirect", plain)
			}
			server := h.serve(args...)
			server.says("certificate obtained")
			roots := ca.roots()
			h.trusted(roots)
			if kept, err := filepath.Glob(filepath.Join(h.dir, "server", "acme", "certificates", "*", "*", "bloom.example.org.crt")); err != nil || len(kept) != 1 {
				t.Errorf("the data directory has the certificates %v: %v", kept, err)
			}
			h.stop(server)
			ca.kill()
			server = h.serve(args...)
			h.trusted(roots)
			h.stop(server) // the harness's final checks use plain HTTP
		})
	}
}

// trusted waits until the server presents a certificate that the roots trust. It asks for the certificate of a worker.
func (h *harness) trusted(roots *x509.CertPool) {
	h.t.Helper()
	asked := false
	own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return new(tls.Certificate), nil
	}
	web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, GetClientCertificate: own}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, h.reserve())
		}}
	get := func(path string) (http.Header, string) {
		req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "https://bloom.example.org"+path, nil)
		if err != nil {
			h.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+adminKey)
		res, err := web.RoundTrip(req)
		if err != nil {
			return nil, ""
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return nil, ""
		}
		if !asked {
			h.t.Error("no worker's certificate was asked for")
		}
		return res.Header, string(body)
	}
	eventually(h.t, "a certificate that the authority signed", func() bool {
		header, _ := get("/readyz")
		return header.Get("Strict-Transport-Security") != ""
	})
	// An alert warns when it is not renewed.
	if _, metrics := get("/metrics"); !strings.Contains(metrics, "\nbloom_certificate_expires_timestamp_seconds ") {
		h.t.Errorf("the metrics do not say when the certificate expires: %.500s", metrics)
	}
}

// pebble is a running authority.
type pebble struct {
	*proc

	h                         *harness
	directory, root, managing string
}

// pebble starts an authority that resolves every name to this machine, at those addresses.
func (h *harness) pebble(overTLS, plain string) *pebble {
	h.t.Helper()
	bin, err := filepath.Abs("../.tools/bin")
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "pebble")); err != nil {
		h.t.Fatalf("%v; scripts/build-pebble.sh builds it", err)
	}
	dir := filepath.Join(h.dir, "pebble")
	cert, key := certificate(h.t, dir)
	names, listens, manages := porttest.Address(h.t), porttest.Address(h.t), porttest.Address(h.t)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listens, "managementListenAddress": manages, "certificate": cert, "privateKey": key,
		"httpPort": port(h.t, plain), "tlsPort": port(h.t, overTLS), "keyAlgorithm": "ecdsa", "retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles": map[string]any{"default": map[string]any{"description": "of a test", "validityPeriod": 7776000}},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	file(h.t, filepath.Join(dir, "config.json"), string(config))
	dns := spawnProgram(h.t, "names", h.env(), filepath.Join(bin, "pebble-challtestsrv"), "-dnsserver", names, "-doh", "", "-http01", "", "-https01", "", "-tlsalpn01", "",
		"-management", porttest.Address(h.t), "-defaultIPv6", "")
	// Real ones are slow and lose requests now and then; that is tested elsewhere.
	p := spawnProgram(h.t, "pebble", h.env("PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=5"), filepath.Join(bin, "pebble"), "-config", filepath.Join(dir, "config.json"), "-dnsserver", names)
	h.t.Cleanup(dns.kill)
	h.t.Cleanup(p.kill)
	p.says("ACME directory available at")
	return &pebble{p, h, "https://" + listens + "/dir", cert, "https://" + manages}
}

func port(t *testing.T, address string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

// roots returns the root certificates of this authority.
func (p *pebble) roots() *x509.CertPool {
	t := p.h.t
	t.Helper()
	own := x509.NewCertPool()
	own.AppendCertsFromPEM([]byte(read(t, p.root)))
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own}, DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := web.Get(p.managing + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		t.Fatalf("no root: %s (%v)", raw, err)
	}
	return pool
}
