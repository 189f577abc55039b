package membridge

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// Headers that carry the keys.
const (
	AdminHeader = "X-MEMBRIDGE-ADMIN"
	AgentHeader = "X-MEMBRIDGE-AGENT"
	// TokenHeader carries the token that proves that an agent owns its name; see registry.Proof.
	TokenHeader = "X-MEMBRIDGE-TOKEN" //nolint:gosec // the header's name, not its value
)

// Bounds of a token, in bytes.
const (
	minToken = 16
	maxToken = 256
)

// callerKind classifies the sender of a request.
type callerKind string

const (
	callerUnknown   callerKind = "" // without a valid key
	callerAdmin     callerKind = "admin"
	callerAgent     callerKind = "agent"
	callerDeveloper callerKind = "development"
)

// authenticator decides who is admitted. It stores digests and compares them in constant time, which
// reveals nothing about a key, not even its length.
type authenticator struct {
	admin, agent       [sha256.Size]byte
	hasAdmin, hasAgent bool
	development        bool
	open               func(context.Context) bool // nil: never
	tokens             bool                       // the agent key requires a token
}

func newAuthenticator(c Config) authenticator {
	return authenticator{
		admin: sha256.Sum256([]byte(c.AdminKey)), hasAdmin: c.AdminKey != "",
		agent: sha256.Sum256([]byte(c.AgentKey)), hasAgent: c.AgentKey != "",
		// If one of the two keys is set, requests without a key must not be allowed more than
		// requests with it.
		development: c.Development && c.AdminKey == "" && c.AgentKey == "",
		open:        c.Open,
		tokens:      c.RequireTokens,
	}
}

// credentials are what the authenticator checks.
type credentials struct {
	adminKey, agentKey string
	local              bool
}

// caller classifies the caller.
func (a authenticator) caller(ctx context.Context, c credentials) callerKind {
	switch {
	case a.hasAdmin && matches(a.admin, c.adminKey):
		return callerAdmin
	case a.hasAgent && matches(a.agent, c.agentKey):
		return callerAgent
	case (a.development || a.open != nil && a.open(ctx)) && c.local:
		return callerDeveloper
	}
	return callerUnknown
}

// check returns the refusal of a caller whom the policy does not admit; nil otherwise.
func (a authenticator) check(need access, who callerKind) *Problem {
	switch {
	case need == accessOpen, who == callerAdmin, who == callerDeveloper, who == callerAgent && need == accessAgent:
		return nil
	case who == callerAgent:
		return problem(http.StatusForbidden, "The agent key is only for an agent's own registration and heartbeats")
	case a.development:
		return problem(http.StatusForbidden, "Without MEMBRIDGE_ADMIN_KEY only direct requests from this machine are answered")
	case !a.hasAdmin:
		return problem(http.StatusInternalServerError, "MEMBRIDGE_ADMIN_KEY not configured on server")
	}
	return problem(http.StatusUnauthorized, "Missing or wrong "+AdminHeader+" key")
}

// proof returns the caller's proof of an agent's name, or the refusal. Admins need none.
func (a authenticator) proof(who callerKind, token string) (registry.Proof, *Problem) {
	p := registry.Proof{Admin: who != callerAgent}
	switch {
	case token == "" && a.tokens && !p.Admin:
		return p, problem(http.StatusUnauthorized, "This control plane requires a token for each agent in addition to the agent key: 16 to 256 characters, "+
			"always the same and secret, in "+TokenHeader+". bloom worker sends one automatically; for agents that cannot, start membridge with --agent-tokens=optional")
	case token == "":
		return p, nil
	}
	if len(token) < minToken || len(token) > maxToken {
		return p, problem(http.StatusBadRequest, "The token in "+TokenHeader+" must have 16 to 256 characters")
	}
	p.Token = registry.TokenDigest(token)
	return p, nil
}

func matches(digest [sha256.Size]byte, key string) bool {
	sum := sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(digest[:], sum[:]) == 1
}

// bearer returns the key of an Authorization header, for metrics scrapers that cannot send custom
// headers.
func bearer(header string) string {
	if len(header) > 7 && strings.EqualFold(header[:7], "bearer ") {
		return header[7:]
	}
	return ""
}
