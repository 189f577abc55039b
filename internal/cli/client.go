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

// remote holds the flags of every command that talks to a server.
type remote struct {
	config.Client `group:"Server:"`
	JSON          bool `name:"json" help:"Print JSON for programs."`
}

func (r *remote) open() (*client.Client, error) { return r.openWith(nil) }

// openWith opens it and reports each failed attempt to a function, unless that is nil.
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

// paging holds the flags of every list.
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

// page returns the page size of one request.
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

// explain returns an error's message with advice.
func explain(err error) string {
	var api *client.APIError
	var unreachable *client.UnreachableError
	switch {
	case errors.As(err, &unreachable):
		return unreachableText(unreachable)
	case errors.As(err, &api) && api.Status == http.StatusNotFound && api.Err.Message == nothingThere:
		return "the server does not know what this command asks for: it is older than this program, " + Version + ", or another one answers there; update the server"
	case errors.As(err, &api) && api.Status == http.StatusUnauthorized && api.Err.Code != bloom.CodeNoCertificate:
		return api.Error() + "\nSet the key with --key-file FILE or BLOOM_API_KEY."
	case errors.As(err, &api) && api.Status >= 500 && api.RequestID != "":
		return api.Error() + " (request " + api.RequestID + ")"
	}
	return strings.TrimSpace(err.Error())
}

// nothingThere is a server's message for an unknown route.
const nothingThere = "There is nothing at this address"

// unreachableText says why the server did not answer, and what to do if that is known.
func unreachableText(failure *client.UnreachableError) string {
	base := strings.TrimSuffix(failure.URL, "/api/runtime")
	text := fmt.Sprintf("no runtime answers at %s (%v)", base, root(failure.Err))
	u, err := url.Parse(base)
	var op *net.OpError
	switch {
	case errors.As(failure.Err, new(x509.UnknownAuthorityError)):
		return fmt.Sprintf("the certificate of %s is not trusted (%v)\nSet the certificate authority with --ca-file FILE or BLOOM_CA_FILE.", base, root(failure.Err))
	case errors.As(failure.Err, new(*tls.CertificateVerificationError)):
		return fmt.Sprintf("the certificate of %s is not accepted (%v)", base, root(failure.Err))
	case errors.As(failure.Err, &op) && op.Op == "remote error" && strings.Contains(op.Error(), "certificate"):
		return fmt.Sprintf("%s refuses the client certificate (%v)\nUse one that is valid and signed by its authority: --client-cert FILE --client-key FILE.", base, root(failure.Err))
	case errors.Is(failure.Err, http.ErrSchemeMismatch):
		return text + "\nIt uses http, not https: use http" + strings.TrimPrefix(base, "https")
	case errors.Is(failure.Err, syscall.ECONNREFUSED) && err == nil && loopback(u.Hostname()):
		return text + "\nIs it running? Start one with: bloom up"
	}
	return text
}

// loopback reports whether the host is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// named adds the requested id to "not found".
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

// root returns the innermost cause: "connection refused" without the layers around it.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
