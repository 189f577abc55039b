package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// How many refused changes are audited per minute, of one address and of all together.
// Metrics count all of them.
const (
	refusalsOfOne = 5
	refusalsOfAll = 60
)

// auditRefusal records that a change was refused because of a missing key or role.
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
	ctx := audit.WithCaller(context.WithoutCancel(r.Context()), audit.Caller{KeyID: caller.ID, Role: caller.Role, Address: s.proxies.Client(r)})
	if err := s.store.AppendAudit(ctx, bloom.Audit{
		Action: audit.ActionRefused, EntityType: "route", EntityID: r.Pattern, Actor: actor, Detail: f.Message, Data: nil,
	}); err != nil {
		s.log.WarnContext(ctx, "auditing a refused request failed", "error", err)
	}
}
