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

// Files names the files of a certificate and of the authority for client certificates.
type Files struct {
	Certificate, Key string
	// ClientCA signs the certificates of workers. Clients without one may still connect.
	ClientCA string
}

// checkEvery is how often the files are checked while connections arrive.
const checkEvery = time.Second

// server returns the configuration of a listener. The certificate is reloaded when its files
// change.
func (f Files) server(log *slog.Logger) (*tls.Config, error) {
	cert, err := newReloaded(f.Certificate, f.Key, log)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: minimum, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.current(), nil }}
	return c, f.clients(c)
}

// clients makes a listener request certificates signed by the authority.
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

// Client returns the configuration of a client: the only trusted authority (the system's when
// empty), and its certificate, if any.
func Client(ca, certificate, key string, log *slog.Logger) (*tls.Config, error) {
	if ca == "" && certificate == "" {
		return nil, nil //nolint:nilnil // the system's default
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
		return nil, fmt.Errorf("certificate authority: %s contains no PEM certificate", path)
	}
	return pool, nil
}

// reloaded is a certificate that is reloaded when its files change.
type reloaded struct {
	certificate, key string
	log              *slog.Logger

	mu      sync.Mutex
	cert    *tls.Certificate
	expired bool           // the expiry of this certificate was logged
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

// read requires the lock, or no concurrent caller.
func (r *reloaded) read(seen [2]fs.FileInfo) error {
	cert, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", r.certificate, err)
	}
	r.cert, r.seen, r.checked, r.expired = &cert, seen, time.Now(), false
	return nil
}

// current returns the current certificate. While the files cannot be used, for example because they
// are being written, the previous one stays. An expired certificate is used and logged, because the
// peer that refuses it often cannot report why.
func (r *reloaded) current() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	cert := r.follow()
	if ends := cert.Leaf.NotAfter; !r.expired && time.Now().After(ends) {
		r.expired = true
		r.log.Error("the certificate has expired; replace its files, which are reloaded automatically", "file", r.certificate, "not_after", ends)
	}
	return cert
}

// follow reloads the files if they have changed. It requires the lock.
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
		r.log.Error("cannot use the changed certificate; keeping the previous one", "error", err)
		return r.cert
	}
	r.log.Info("certificate reloaded", "file", r.certificate, "not_after", r.cert.Leaf.NotAfter)
	return r.cert
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
