package front

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// ACME configures where and for which names certificates are obtained. Servers that share the
// folder share the certificates.
type ACME struct {
	Domains []string
	Email   string
	// Directory is the URL of the authority's directory; empty means Let's Encrypt.
	Directory string
	// Roots is a file with the root certificates for Directory; empty means the system's.
	Roots  string
	Folder string
	// ClientCA signs the certificates of workers.
	ClientCA string
}

// open starts to obtain and renew the certificates. Handshakes fail until the first one is
// available. plain also answers the authority's HTTP challenges.
func (a ACME) open(ctx context.Context, plain http.Handler, log *slog.Logger) (*tls.Config, http.Handler, func(), error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	quiet := zap.NewNop() // OnEvent reports what happens
	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil }, Logger: quiet,
	})
	stop := func() { cancel(); cache.Stop() }
	magic = certmagic.New(cache, certmagic.Config{Storage: &certmagic.FileStorage{Path: a.Folder}, Logger: quiet,
		OnEvent: func(ctx context.Context, event string, data map[string]any) error {
			report(ctx, log, event, data)
			return nil
		}})
	issuer := certmagic.ACMEIssuer{CA: a.Directory, Email: a.Email, Agreed: true, Logger: quiet}
	if a.Directory != "" {
		issuer.TestCA = a.Directory
	}
	if a.Roots != "" {
		pool, err := readPool(a.Roots)
		if err != nil {
			stop()
			return nil, nil, nil, err
		}
		issuer.TrustedRoots = pool
	}
	acme := certmagic.NewACMEIssuer(magic, issuer)
	magic.Issuers = []certmagic.Issuer{acme}
	if err := magic.ManageAsync(ctx, a.Domains); err != nil {
		stop()
		return nil, nil, nil, fmt.Errorf("--acme-domain: %w", err)
	}
	c := magic.TLSConfig()
	c.MinVersion = minimum
	c.NextProtos = slices.Concat([]string{"http/1.1"}, c.NextProtos)
	return c, acme.HTTPChallengeHandler(plain), stop, Files{ClientCA: a.ClientCA}.clients(c)
}

// report logs that a certificate was obtained or not.
func report(ctx context.Context, log *slog.Logger, event string, data map[string]any) {
	switch event {
	case "cert_obtained":
		log.InfoContext(ctx, "certificate obtained", "domain", data["identifier"], "renewal", data["renewal"])
	case "cert_failed":
		log.ErrorContext(ctx, "could not obtain a certificate; retrying", "domain", data["identifier"], "error", data["error"])
	}
}
