package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"

	"github.com/bloom-runtime/bloom"
)

// howToFree is what helps whoever lost a token.
const howToFree = "an admin frees the name: DELETE /agents/{name}, or for a node one heartbeat with the admin key"

// Errors of a Proof.
var (
	ErrNeedsToken = &bloom.Error{Kind: bloom.KindConflict, Code: "token_needed",
		Message: "This name is bound to a token of its own, which must come with the agent key in X-MEMBRIDGE-TOKEN; if it was lost, " + howToFree}
	ErrOtherToken = &bloom.Error{Kind: bloom.KindConflict, Code: "token_mismatch",
		Message: "This name is bound to another token. If that is another machine's, choose another name; if it was lost, " + howToFree}
)

// Proof is what a caller shows for speaking in an agent's or a node's name. The
// agent key is every agent's; what tells one from another is a token that each
// makes for itself. The zero Proof is a caller with the agent key and nothing else.
type Proof struct {
	// Admin may speak in every name.
	Admin bool
	// Token is the TokenDigest of the token that came along, empty for none.
	Token string
}

// TokenDigest is what is kept of a token, and what orders to its agent's URL are
// signed with: the SHA-256 in hex.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Bind decides whether the caller may write what is bound to the digest bound
// (empty: to none), and returns what it is bound to afterwards. The first token
// that comes along binds; from then on only the same token, or an admin, may
// write. An admin's write binds to the token that comes with it, or to none.
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
