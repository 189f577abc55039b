package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

const sessionPath = runtimePath + "/session"

// session is the caller's identity.
type session struct {
	Name   string    `json:"name" doc:"Name of the key; empty without a key"`
	Role   auth.Role `json:"role" enum:"admin,client,worker,approver,viewer," doc:"Empty without a key"`
	Cookie bool      `json:"cookie" doc:"The caller has a session cookie; DELETE ends the session"`
	Auth   auth.Mode `json:"auth" enum:"keys,development,insecure" doc:"How callers are authenticated"`
	OIDC   string    `json:"oidc,omitempty" doc:"Host of the sign-in provider, if there is one; GET /session/oidc redirects to it"`
}

// signInBody is the key to exchange for a session.
type signInBody struct {
	Key string `json:"key" minLength:"1" maxLength:"1024" example:"the server's RUNTIME_API_KEY"`
}

func (s *Server) sessionRoutes() {
	handle(s, route{method: http.MethodGet, path: sessionPath, id: "get-session", small: true, summary: "Who the caller is; renews a session", tag: "system"},
		func(_ context.Context, c *call, _ *none) (*reply[session], error) {
			if c.unknown != nil {
				return nil, c.unknown
			}
			cookie, err := s.auth.Renew(c.r, s.proxies.OverTLS(c.r))
			if err != nil {
				return nil, err
			}
			known := c.caller.Session != ""
			if known && cookie != nil {
				http.SetCookie(c.w, cookie)
			}
			return &reply[session]{http.StatusOK, session{Name: c.caller.Name, Role: c.caller.Role, Cookie: known, Auth: s.auth.Mode(), OIDC: s.auth.Provider()}}, nil
		})
	handle(s, route{method: http.MethodPost, path: sessionPath, id: "sign-in", summary: "Exchange a key for a session cookie", tag: "system", body: signInBody{}}, s.signIn)
	handle(s, route{method: http.MethodDelete, path: sessionPath, id: "sign-out", summary: "End the session", tag: "system"},
		func(ctx context.Context, c *call, _ *none) (*reply[session], error) {
			if c.unknown != nil {
				return nil, c.unknown
			}
			cookies, err := s.auth.SignOut(ctx, c.caller)
			if err != nil {
				return nil, err
			}
			for _, cookie := range cookies {
				http.SetCookie(c.w, cookie)
			}
			return &reply[session]{http.StatusOK, session{Name: "", Role: "", Cookie: false, Auth: s.auth.Mode(), OIDC: s.auth.Provider()}}, nil
		})
	handle(s, route{method: http.MethodGet, path: sessionPath + "/oidc", id: "begin-sign-in", small: true, summary: "Sign in at the provider", tag: "system", status: http.StatusSeeOther}, s.beginSignIn)
	handle(s, route{method: http.MethodGet, path: sessionPath + "/oidc/callback", id: "finish-sign-in", small: true, summary: "Where the provider redirects the browser", tag: "system", status: http.StatusSeeOther}, s.finishSignIn)
}

// redirect is a redirecting response.
type redirect struct {
	Status   int
	Location string `header:"Location"`
}

// backTo is the page to show after the sign-in.
type backTo struct {
	To string `query:"to" doc:"Path of the page to show afterwards; absent: /"`
}

func (s *Server) beginSignIn(ctx context.Context, c *call, in *backTo) (*redirect, error) {
	if err := s.limits.take(c.w, s.limits.signIn, s.network(c.r)); err != nil {
		return nil, err
	}
	location, cookie, err := s.auth.BeginSignIn(ctx, in.To, s.proxies.OverTLS(c.r))
	if err != nil {
		if errors.Is(err, auth.ErrProviderAway) {
			return s.backToSignIn(ctx, in.To, err), nil
		}
		return nil, err
	}
	http.SetCookie(c.w, cookie)
	return &redirect{http.StatusSeeOther, location}, nil
}

func (s *Server) finishSignIn(ctx context.Context, c *call, _ *none) (*redirect, error) {
	if err := s.limits.take(c.w, s.limits.signIn, s.network(c.r)); err != nil {
		return nil, err
	}
	back, cookies, err := s.auth.FinishSignIn(c.r, auth.Visitor{Address: s.proxies.Client(c.r), Agent: c.r.UserAgent(), Secure: s.proxies.OverTLS(c.r)})
	for _, cookie := range cookies {
		http.SetCookie(c.w, cookie)
	}
	if kind := bloom.KindOf(err); kind == bloom.KindInvalid || kind == bloom.KindForbidden || kind == bloom.KindUnavailable {
		return s.backToSignIn(ctx, back, err), nil
	}
	if err != nil {
		return nil, err
	}
	return &redirect{http.StatusSeeOther, back}, nil
}

// backToSignIn redirects to the sign-in page, which explains the error code.
func (s *Server) backToSignIn(ctx context.Context, to string, err error) *redirect {
	s.log.WarnContext(ctx, "a sign-in at the provider failed", "error", err)
	q := url.Values{"error": {"sign_in_unavailable"}}
	if e := (*bloom.Error)(nil); errors.As(err, &e) {
		q.Set("error", e.Code)
	}
	if to != "" && to != "/" {
		q.Set("to", to)
	}
	return &redirect{http.StatusSeeOther, "/sign-in?" + q.Encode()}
}

// signIn is rate-limited by address, so that keys cannot be guessed. A valid key is accepted even
// then, as with every other request: addresses are cheap, and many together must not lock out people.
func (s *Server) signIn(ctx context.Context, c *call, _ *none) (*reply[session], error) {
	limited := s.limits.take(c.w, s.limits.signIn, s.network(c.r))
	var b signInBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, cmp.Or(limited, err)
	}
	if s.auth.Valid(ctx, b.Key, s.proxies.Client(c.r)) {
		sum := sha256.Sum256([]byte(b.Key))
		limited = s.limits.take(c.w, s.limits.sessions, string(sum[:])) // each is a row and an audit entry
	}
	if limited != nil {
		return nil, limited
	}
	cookie, caller, err := s.auth.SignIn(ctx, b.Key, auth.Visitor{Address: s.proxies.Client(c.r), Agent: c.r.UserAgent(), Secure: s.proxies.OverTLS(c.r)})
	if err != nil {
		return nil, err
	}
	http.SetCookie(c.w, cookie)
	return &reply[session]{http.StatusOK, session{Name: caller.Name, Role: caller.Role, Cookie: true, Auth: s.auth.Mode(), OIDC: s.auth.Provider()}}, nil
}
