package httpapi_test

import (
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/oidctest"
)

func TestRolesComeFromClaims(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	r := oidcFixture(p)
	p.Claims = map[string]any{"preferred_username": "admin", "email": "x@example.org", "realm": map[string]any{"groups": "staff"}}
	_, cookie := signIn(p, r)
	var s sessionState
	r.call(200, &s, "GET", "/session", "", "Cookie", cookie)
	if s.Role != "viewer" || s.Name != "admin" {
		t.Fatalf("signed in as %+v", s)
	}
	r.fails(403, "forbidden", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Cookie", cookie)
}

// A signed-in user has the role that the current rules assign, and none after the provider was
// changed.
func TestARoleFollowsItsRules(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Claims = map[string]any{"realm": map[string]any{"groups": "operators"}}
	r := oidcFixture(p)
	_, cookie := signIn(p, r)
	r.call(200, nil, "GET", "/keys", "", "Cookie", cookie)
	r.call(201, nil, "POST", "/keys", `{"name":"node","role":"worker"}`, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	var audit []bloom.Audit
	r.call(200, &audit, "GET", "/audit?action=login", "", "Cookie", cookie)
	if len(audit) != 1 || audit[0].KeyID != "oidc:u-17" {
		t.Fatalf("audit: %+v", audit)
	}
	ours := auth.OIDC{Issuer: p.URL, ClientID: oidctest.ClientID, Claim: "realm.groups", Roles: []auth.RoleRule{{Role: auth.RoleViewer, Value: "operators"}}}
	changed := func(change func(*auth.OIDC)) *auth.OIDC { o := ours; change(&o); return &o }
	for name, test := range map[string]struct {
		provider *auth.OIDC
		role     auth.Role
	}{
		"weaker rules":     {&ours, auth.RoleViewer},
		"no rule":          {changed(func(o *auth.OIDC) { o.Roles = []auth.RoleRule{{Role: auth.RoleAdmin, Value: "others"}} }), ""},
		"another provider": {changed(func(o *auth.OIDC) { o.Issuer = "https://id.example.org" }), ""},
		"another client":   {changed(func(o *auth.OIDC) { o.ClientID = "other" }), ""},
		"no provider":      {nil, ""},
	} {
		a, err := auth.New(auth.Config{AdminKey: adminKey, LoopbackOnly: true, OIDC: test.provider})
		must(t, err)
		seal, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
		must(t, err)
		must(t, a.Open(t.Context(), r.store, seal, r.clock))
		defer a.Close()
		who, err := a.Authenticate(r.request("GET", "/api/runtime/keys", "", "Cookie", cookie))
		if who.Role != test.role || (err == nil) != (test.role != "") {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}
