package e2e_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	file string // its certificate
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.file = filepath.Join(dir, "authority.pem")
	file(t, a.file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// sign writes a certificate that expires at ends, and its key, over the previous ones.
func (a *authority) sign(name string, ends time.Time) (cert, key string) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, own.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// TestWorkersAndServerProveThemselvesByCertificate uses mutual TLS between real processes. When a
// certificate expires, new connections fail with that reason, and once the files are replaced
// everything continues without a restart.
func TestWorkersAndServerProveThemselvesByCertificate(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-time.Hour)
	ca, stranger := newAuthority(t, t.TempDir()), newAuthority(t, t.TempDir())
	cert, key := ca.sign("server", tomorrow)
	server := h.overTLS(ca, cert, key)
	claude := quickClaude(t, filepath.Join(h.dir, "runs"))
	work := func(name string, more ...string) *proc {
		return h.work(workerOptions{name: name, claude: claude, env: []string{}, args: append([]string{"--ca-file", ca.file, "--label", name}, more...)})
	}
	shown := func(cert, key string) []string { return []string{"--client-cert", cert, "--client-key", key} }
	work("good", shown(ca.sign("good", tomorrow))...)
	h.runs(t, "good")

	bare := work("bare")
	bare.says("client certificate")
	if code := bare.wait(); code == 0 || strings.Contains(bare.out.String(), "--key-file") {
		t.Errorf("a worker without a certificate ends with %d: %s", code, bare.out)
	}
	work("foreign", shown(stranger.sign("foreign", tomorrow))...)
	server.says("refused a client certificate")
	work("late", shown(ca.sign("late", yesterday))...).says("the certificate has expired")
	ca.sign("late", tomorrow)
	h.runs(t, "late")

	ca.sign("server", yesterday)
	server.says("the certificate has expired") // it presents the new one from now on
	work("next", shown(ca.sign("next", tomorrow))...).says("x509: certificate has expired")
	ca.sign("server", tomorrow)
	h.runs(t, "next")
	for _, name := range []string{"bare", "foreign"} {
		if _, err := h.api.Worker(t.Context(), name); err == nil {
			t.Errorf("the worker %q was let in", name)
		}
	}
}

// overTLS starts the server with that certificate, requires certificates of the authority from
// workers, and makes the harness use TLS.
func (h *harness) overTLS(ca *authority, cert, key string) *proc {
	h.t.Helper()
	address := h.reserve()
	server := h.serve("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.file)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(read(h.t, ca.file)))
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	h.t.Cleanup(web.CloseIdleConnections)
	h.url = "https://" + address
	api, err := client.New(h.url, client.Options{APIKey: adminKey, HTTPClient: web, Retry: client.Retry{Tries: 60, Max: 500 * time.Millisecond}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api = api
	h.t.Cleanup(api.Close)
	return server
}

// runs has the worker with that label run a task.
func (h *harness) runs(t *testing.T, label string) {
	t.Helper()
	s := spec("over TLS")
	s.Labels = []string{label}
	task, err := h.api.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, label+" runs a task", func() bool {
		now, err := h.api.Task(t.Context(), task.ID)
		return err == nil && now.Status == bloom.TaskCompleted
	})
}
