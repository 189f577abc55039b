package config

import (
	"errors"
	"fmt"
)

// Secure reports whether the server speaks https.
func (t *TLS) Secure() bool { return t.TLSCert != "" || len(t.ACMEDomain) > 0 }

// finish refuses settings that would have no effect: an operator who configures TLS must not get
// plain HTTP.
func (t *TLS) finish() error {
	if err := pair("--tls-cert", t.TLSCert, "--tls-key", t.TLSKey); err != nil {
		return err
	}
	if err := errors.Join(present("--tls-cert", t.TLSCert), present("--tls-key", t.TLSKey), present("--tls-client-ca", t.TLSClientCA)); err != nil {
		return err
	}
	if t.TLSCert != "" && len(t.ACMEDomain) > 0 {
		return errors.New("--tls-cert and --acme-domain: set only one; a certificate comes from files or from ACME")
	}
	for _, one := range []struct {
		flag, value string
		on          bool
		needs       string
	}{
		{"--tls-client-ca", t.TLSClientCA, t.Secure(), "--tls-cert or --acme-domain"},
		{"--http-redirect", t.HTTPRedirect, t.Secure(), "--tls-cert or --acme-domain"},
		{"--acme-email", t.ACMEEmail, len(t.ACMEDomain) > 0, "--acme-domain"},
		{"--acme-directory", t.ACMEDirectory, len(t.ACMEDomain) > 0, "--acme-domain"},
		{"--acme-roots", t.ACMERoots, len(t.ACMEDomain) > 0, "--acme-domain"},
	} {
		if one.value != "" && !one.on {
			return fmt.Errorf("%s has no effect without %s", one.flag, one.needs)
		}
	}
	if t.HTTPRedirect != "" {
		if _, err := withPort(t.HTTPRedirect, 0, FromDefault, FromDefault, "--http-redirect", ""); err != nil {
			return err
		}
	}
	return nil
}
