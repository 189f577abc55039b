package front

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are where a certificate lies, and the authority of the other side's.
type Files struct {
	Certificate, Key string
	// ClientCA signs the certificates of workers. Others may still connect.
	ClientCA string
}

// checkEvery is how often a file is looked at while connections come in.
const checkEvery = time.Second

// server makes the configuration of a listener. The certificate is read again when
// its files have changed.
func (f Files) server(log *slog.Logger) (*tls.Config, error) {
	cert, err := newReloaded(f.Certificate, f.Key, log)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: minimum, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.current(), nil }}
	return c, f.clients(c)
}

// clients has a listener ask for certificates that the authority has signed.
func (f Files) clients(c *tls.Config) error {
	if f.ClientCA == "" {
		return nil
	}
	pool, err := readPool(f.ClientCA)
	if err != nil {
		return err
	}
	c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven
	return nil
}

// Client makes the configuration of a client: which authority it trusts (besides
// none but the system's, when empty), and the certificate it shows, if any.
func Client(ca, certificate, key string, log *slog.Logger) (*tls.Config, error) {
	if ca == "" && certificate == "" {
		return nil, nil //nolint:nilnil // the system's own
	}
	c := &tls.Config{MinVersion: minimum}
	if ca != "" {
		pool, err := readPool(ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if certificate != "" {
		cert, err := newReloaded(certificate, key, log)
		if err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.current(), nil }
	}
	return c, nil
}

func readPool(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("certificate authority: %s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// reloaded is a certificate that follows its files.
type reloaded struct {
	certificate, key string
	log              *slog.Logger

	mu      sync.Mutex
	cert    *tls.Certificate
	expired bool           // it was said of this certificate
	seen    [2]fs.FileInfo // the files when they were last read
	checked time.Time
}

func newReloaded(certificate, key string, log *slog.Logger) (*reloaded, error) {
	r := &reloaded{certificate: certificate, key: key, log: log}
	seen, err := r.look()
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return r, r.read(seen)
}

func (r *reloaded) look() (seen [2]fs.FileInfo, err error) {
	var errs [2]error
	for i, path := range []string{r.certificate, r.key} {
		seen[i], errs[i] = os.Stat(path)
	}
	return seen, errors.Join(errs[0], errs[1])
}

// read is called with the lock held, or before there is another caller.
func (r *reloaded) read(seen [2]fs.FileInfo) error {
	cert, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", r.certificate, err)
	}
	r.cert, r.seen, r.checked, r.expired = &cert, seen, time.Now(), false
	return nil
}

// current is the certificate now. Files that cannot be used, because somebody is
// writing them, leave the one before in place until they can. One that has expired is
// used and logged: the other side, which refuses it, often cannot say why.
func (r *reloaded) current() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	cert := r.follow()
	if ends := cert.Leaf.NotAfter; !r.expired && time.Now().After(ends) {
		r.expired = true
		r.log.Error("the certificate has expired: replace its files, which are read again by themselves", "file", r.certificate, "not_after", ends)
	}
	return cert
}

// follow reads the files again when they have changed. It is called with the lock held.
func (r *reloaded) follow() *tls.Certificate {
	if time.Since(r.checked) < checkEvery {
		return r.cert
	}
	r.checked = time.Now()
	seen, err := r.look()
	if err == nil && same(seen[0], r.seen[0]) && same(seen[1], r.seen[1]) {
		return r.cert
	}
	if err == nil {
		err = r.read(seen)
	}
	if err != nil {
		r.log.Error("the changed certificate cannot be used; the one before stays", "error", err)
		return r.cert
	}
	r.log.Info("certificate reloaded", "file", r.certificate, "not_after", r.cert.Leaf.NotAfter)
	return r.cert
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
