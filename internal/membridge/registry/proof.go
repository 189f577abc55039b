package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"

	"github.com/bloom-runtime/bloom"
)

// unbindAdvice is advice for the owner of a lost token.
const unbindAdvice = "an admin can free the name: DELETE /agents/{name}, or for a node one heartbeat with the admin key"

// Errors of a Proof.
var (
	ErrNeedsToken = &bloom.Error{Kind: bloom.KindConflict, Code: "token_needed",
		Message: "This name is bound to a token, which must be sent in X-MEMBRIDGE-TOKEN with the agent key; if it was lost, " + unbindAdvice}
	ErrOtherToken = &bloom.Error{Kind: bloom.KindConflict, Code: "token_mismatch",
		Message: "This name is bound to another token. If that belongs to another machine, choose another name; if it was lost, " + unbindAdvice}
)

// Proof is a caller's proof that it may act for an agent or a node. All agents share the agent key;
// each generates its own token, which identifies it. The zero Proof is a caller with only the agent
// key.
type Proof struct {
	// Admin may act for every name.
	Admin bool
	// Token is the TokenDigest of the caller's token, empty without one.
	Token string
}

// TokenDigest returns the SHA-256 of a token in hex: what is stored of it, and the key that signs
// commands to the agent's URL.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Bind decides whether the caller may change what is bound to the digest bound (empty: unbound),
// and returns what it is bound to afterwards. The first token binds; after that only the same
// token, or an admin, may change it. An admin's change binds to the admin's token, or unbinds.
func (p Proof) Bind(bound string) (string, error) {
	switch {
	case p.Admin, bound == "":
		return p.Token, nil
	case p.Token == "":
		return "", ErrNeedsToken
	case subtle.ConstantTimeCompare([]byte(p.Token), []byte(bound)) != 1:
		return "", ErrOtherToken
	}
	return bound, nil
}
