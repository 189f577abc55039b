package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
)

// remote is what every command that talks to a server has.
type remote struct {
	config.Client
	JSON bool `name:"json" help:"Print JSON for programs."`
}

func (r *remote) open() (*client.Client, error) { return r.openWith(nil) }

// openWith opens it with somebody who is told of each try that failed; nil: nobody is.
func (r *remote) openWith(onRetry func(error, time.Duration)) (*client.Client, error) {
	if err := r.Client.Finish(); err != nil {
		return nil, usage(err)
	}
	secure, err := front.Client(r.CAFile, r.Cert, r.CertKey, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, usage(err)
	}
	c, err := client.New(r.URL, client.Options{APIKey: string(r.APIKey), UserAgent: "bloom-cli/" + Version, TLS: secure, OnRetry: onRetry})
	return c, usage(err)
}

// paging is what every list has.
type paging struct {
	Limit int  `name:"limit" short:"n" default:"50" placeholder:"N" help:"Most entries to show."`
	All   bool `name:"all" help:"Show every entry."`
}

func (p paging) check() error {
	if p.Limit < 1 {
		return usagef("--limit: %d is not at least 1", p.Limit)
	}
	return nil
}

// page is the size of one request's page.
func (p paging) page() bloom.Page {
	if p.All {
		return bloom.Page{Limit: bloom.MaxPageSize}
	}
	return bloom.Page{Limit: min(p.Limit, bloom.MaxPageSize)}
}

// take collects a list up to the limit.
func take[T any](p paging, list func(yield func(T, error) bool)) ([]T, error) {
	out := []T{}
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
		if !p.All && len(out) >= p.Limit {
			break
		}
	}
	return out, nil
}

// explain turns a failure into what a person can act on.
func explain(err error) string {
	var api *client.APIError
	var away *client.Unreachable
	switch {
	case errors.As(err, &away):
		return notReached(away)
	case errors.As(err, &api) && api.Status == http.StatusNotFound && api.Err.Message == nothingThere:
		return "the server does not know what this command asks for: it is older than this program, " + Version + ", or another one answers there; update the server"
	case errors.As(err, &api) && api.Status == http.StatusUnauthorized && api.Err.Code != bloom.CodeNoCertificate:
		return api.Error() + "\nGive the key with --key-file FILE or BLOOM_API_KEY."
	case errors.As(err, &api) && api.Status >= 500 && api.RequestID != "":
		return api.Error() + " (request " + api.RequestID + ")"
	}
	return strings.TrimSpace(err.Error())
}

// nothingThere is what a server says of an address that it has no route for.
const nothingThere = "There is nothing at this address"

// notReached says why there is no answer, and what to do where that is known.
func notReached(away *client.Unreachable) string {
	base := strings.TrimSuffix(away.URL, "/api/runtime")
	said := fmt.Sprintf("no runtime answers at %s (%v)", base, root(away.Err))
	u, err := url.Parse(base)
	var op *net.OpError
	switch {
	case errors.As(away.Err, new(x509.UnknownAuthorityError)):
		return fmt.Sprintf("the certificate of %s is not trusted (%v)\nName the authority that signed it with --ca-file FILE or BLOOM_CA_FILE.", base, root(away.Err))
	case errors.As(away.Err, new(*tls.CertificateVerificationError)):
		return fmt.Sprintf("the certificate of %s is not accepted (%v)", base, root(away.Err))
	case errors.As(away.Err, &op) && op.Op == "remote error" && strings.Contains(op.Error(), "certificate"):
		return fmt.Sprintf("%s refuses the client certificate (%v)\nGive one that is valid and signed by its authority: --client-cert FILE --client-key FILE.", base, root(away.Err))
	case errors.Is(away.Err, http.ErrSchemeMismatch):
		return said + "\nIt speaks http: use http" + strings.TrimPrefix(base, "https")
	case errors.Is(away.Err, syscall.ECONNREFUSED) && err == nil && loopback(u.Hostname()):
		return said + "\nIs it running? Start one with: bloom up"
	}
	return said
}

// loopback reports whether the host is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// named adds to "not found" the id that was asked for.
func (inv *invocation) named(err error) error {
	var api *client.APIError
	node := inv.kong.Selected()
	if node == nil || !errors.As(err, &api) || api.Status != http.StatusNotFound || api.Err.Message == nothingThere {
		return err
	}
	for _, arg := range node.Positional {
		if arg.Name == "id" {
			return fmt.Errorf("%w: %v", err, arg.Target)
		}
	}
	return err
}

// root is the innermost cause: "connection refused" rather than the layers
// around it.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
