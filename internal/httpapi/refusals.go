package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// Refused changes in the audit: a minute, of one address and of all together. Others
// are counted by metrics alone.
const (
	refusalsOfOne = 5
	refusalsOfAll = 60
)

// auditRefusal notes that a change was refused for want of a key or a role. The request
// is never held up by it for long, and a flood of them fills no database.
func (s *Server) auditRefusal(r *http.Request, caller auth.Principal, err error) {
	kind := bloom.KindOf(err)
	if r.Method == http.MethodGet || kind != bloom.KindUnauthorized && kind != bloom.KindForbidden {
		return
	}
	if s.refusalsOfOne.Allow(s.network(r)).Wait > 0 || s.refusalsOfAll.Allow("").Wait > 0 {
		return
	}
	actor := caller.Name
	if !caller.Known() {
		actor = "anonymous"
	}
	f := s.failure(r.Context(), "", err)
	ctx := bloom.WithCaller(context.WithoutCancel(r.Context()), bloom.Caller{KeyID: caller.ID, Role: caller.Role, Address: s.proxies.Client(r)})
	if err := s.svc.Refused(ctx, r.Pattern, actor, f.Message); err != nil {
		s.log.WarnContext(ctx, "a refused request could not be audited", "error", err)
	}
}
