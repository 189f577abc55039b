package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// A key is "blm_<id>_<secret>": the id names its row, the secret is 256 random bits.
const (
	keyPrefix    = "blm_"
	keyIDSize    = 10 // bytes; 16 characters
	keySecretLen = 32 // bytes; 52 characters
)

var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newKey generates a key with the id and digest of its row.
func newKey() (text, id, digest string) {
	var raw [keyIDSize + keySecretLen]byte
	_, _ = rand.Read(raw[:]) // never fails; see crypto/rand
	id = keyEncoding.EncodeToString(raw[:keyIDSize])
	text = keyPrefix + id + "_" + keyEncoding.EncodeToString(raw[keyIDSize:])
	sum := sha256.Sum256([]byte(text))
	return text, id, hex.EncodeToString(sum[:])
}

// keyID returns the id in a key of our format, "" for any other.
func keyID(text string) string {
	rest, ours := strings.CutPrefix(text, keyPrefix)
	id, secret, two := strings.Cut(rest, "_")
	if !ours || !two || secret == "" || !isKeyID(id) {
		return ""
	}
	return id
}

func isKeyID(id string) bool {
	return len(id) == keyEncoding.EncodedLen(keyIDSize) &&
		!strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') })
}

// matches compares in constant time.
func matches(k contract.StoredKey, sum [sha256.Size]byte) bool {
	stored, err := hex.DecodeString(k.Digest)
	if err != nil || len(stored) != sha256.Size {
		stored = make([]byte, sha256.Size) // an unknown key takes the same time
	}
	return subtle.ConstantTimeCompare(stored, sum[:]) == 1 && k.Digest != ""
}

// ErrFirstKey is returned when the first key to be created is not an admin key.
var ErrFirstKey = &bloom.Error{Kind: bloom.KindConflict, Code: "first_key_not_admin",
	Message: "The first key must be an admin key: from then on every request requires a key"}

// guessesPerKey is how many wrong secrets per minute are checked for one key's id.
const guessesPerKey = 10

// missesPerNetwork is how many lookups per minute of keys that do not exist are made for one
// network, or for all of very many. Beyond that only keys that this server has read before, or that
// it knows to exist, are looked up for it: random ids must not cost the database a query each.
const missesPerNetwork = 600

var errUnknownKeys = &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
	Message: "Too many requests with unknown keys from this address; try again later"}

var errGuessing = &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
	Message: "Too many wrong secrets for this key; try again later"}

var errOwnKey = &bloom.Error{Kind: bloom.KindConflict, Code: "own_key",
	Message: "A key cannot revoke itself; use another admin key, so that one remains"}

// CreateKey creates and stores a key. actor is for the audit; now is in Unix milliseconds.
// withAdmin means that admins exist without a stored key; otherwise the first key must be an
// admin key.
func CreateKey(ctx context.Context, store contract.AccessStore, spec bloom.KeySpec, actor string, now int64, withAdmin bool) (bloom.CreatedKey, error) {
	spec.Name, spec.WorkerID = strings.TrimSpace(storable.Text(spec.Name)), storable.Text(spec.WorkerID)
	if err := checkKey(spec, now); err != nil {
		return bloom.CreatedKey{}, err
	}
	if spec.Role != RoleAdmin && !withAdmin {
		any, err := store.AnyKey(ctx)
		if err != nil {
			return bloom.CreatedKey{}, err
		}
		if !any {
			return bloom.CreatedKey{}, ErrFirstKey
		}
	}
	text, id, digest := newKey()
	k := contract.StoredKey{Digest: digest, APIKey: bloom.APIKey{ID: id, Name: spec.Name, Role: spec.Role}}
	if spec.WorkerID != "" {
		k.WorkerID = &spec.WorkerID
	}
	if spec.ExpiresAt != 0 {
		k.ExpiresAt = &spec.ExpiresAt
	}
	made, err := store.CreateKey(ctx, k, actor)
	return bloom.CreatedKey{APIKey: made, Key: text}, err
}

func checkKey(spec bloom.KeySpec, now int64) error {
	var details []bloom.FieldError
	wrong := func(field, message string) {
		details = append(details, bloom.FieldError{Field: field, Message: message})
	}
	if !printable(spec.Name, MaxKeyName) {
		wrong("name", "must have 1 to 128 printable characters")
	}
	if !slices.Contains(Roles, spec.Role) {
		wrong("role", "must be 'admin' or 'client' or 'worker' or 'approver' or 'viewer'")
	}
	if spec.WorkerID != "" && spec.Role != RoleWorker {
		wrong("worker_id", "is only for keys with the role 'worker'")
	}
	if spec.WorkerID != "" && !printable(spec.WorkerID, 128) {
		wrong("worker_id", "must have at most 128 printable characters")
	}
	if spec.ExpiresAt != 0 && spec.ExpiresAt <= now {
		wrong("expires_at", "must be in the future")
	}
	if len(details) == 0 {
		return nil
	}
	return bloom.Invalid("Invalid request: "+details[0].Field+" "+details[0].Message, details...)
}

func printable(s string, most int) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CreateKey creates a key on behalf of a caller. See the function of the same name.
func (a *Authenticator) CreateKey(ctx context.Context, spec bloom.KeySpec, by Principal) (bloom.CreatedKey, error) {
	if a.store == nil {
		return bloom.CreatedKey{}, errNoStore
	}
	made, err := CreateKey(ctx, a.store, spec, by.Name, timing.Millis(a.clock.Now()), a.admin || a.oidc != nil)
	a.forget()
	return made, err
}

// RevokeKey revokes a key and ends its sessions. A caller cannot revoke its own key.
func (a *Authenticator) RevokeKey(ctx context.Context, id string, by Principal) (bloom.APIKey, error) {
	switch {
	case a.store == nil:
		return bloom.APIKey{}, errNoStore
	case !isKeyID(id):
		return bloom.APIKey{}, bloom.NotFound("Key")
	case id == by.ID:
		return bloom.APIKey{}, errOwnKey
	}
	k, err := a.store.RevokeKey(ctx, id, by.Name)
	a.forget()
	return k, err
}

// Keys lists keys, newest first.
func (a *Authenticator) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	if a.store == nil {
		return nil, bloom.Cursor{}, errNoStore
	}
	return a.store.Keys(ctx, p)
}

var errNoStore = bloom.Internal(errors.New("auth: no store was opened"))

// byStored returns the caller with a stored key.
func (a *Authenticator) byStored(ctx context.Context, id string, sum [sha256.Size]byte, address string) (Principal, error) {
	if !a.keys.has(id) && a.misses.Exhausted(guard.Network(address)) && !a.existing.has(ctx, a.store, id) {
		return Principal{}, errUnknownKeys
	}
	k, err := a.keys.get(ctx, id, func(ctx context.Context, id string) (contract.StoredKey, error) {
		k, err := a.store.Key(ctx, id)
		if bloom.KindOf(err) == bloom.KindNotFound {
			a.misses.Allow(guard.Network(address))
		}
		return k, err
	})
	if err != nil && bloom.KindOf(err) != bloom.KindNotFound {
		return Principal{}, err
	}
	if !matches(k, sum) {
		// Only wrong secrets count, so that guessing does not slow the owner of the key.
		if a.guesses.Allow(id).Wait > 0 {
			return Principal{}, errGuessing
		}
		return Principal{}, errBadKey
	}
	switch k.StatusAt(timing.Millis(a.clock.Now())) {
	case bloom.KeyRevoked:
		return Principal{}, errRevokedKey
	case bloom.KeyExpired:
		return Principal{}, errExpiredKey
	case bloom.KeyActive:
	}
	p := Principal{ID: k.ID, Name: k.Name, Role: k.Role}
	if k.WorkerID != nil {
		p.Worker = *k.WorkerID
	}
	a.used.key(k.ID, a.clock.Now())
	return p, nil
}
