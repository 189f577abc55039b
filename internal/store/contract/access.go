package contract

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// StoredKey is a key with the SHA-256 of its text in hex. The digest is never shown.
type StoredKey struct {
	bloom.APIKey
	Digest string
}

// StoredSession is a session with the generation of its cookie, which distinguishes the current cookie from
// earlier ones.
type StoredSession struct {
	bloom.BrowserSession
	Turn     int64 // of the cookie; grows with each renewal
	TurnedAt int64 // Unix milliseconds
}

// AccessStore keeps API keys and browser sessions. Changes are published as ChangeAccess.
type AccessStore interface {
	// CreateKey stores a key. The caller sets ID, Name, Role, WorkerID, ExpiresAt and Digest; the
	// same ID and Digest again returns the existing key.
	CreateKey(ctx context.Context, k StoredKey, actor string) (bloom.APIKey, error)
	// Key returns a key by its id, even a revoked one; NotFound("Key").
	Key(ctx context.Context, id string) (StoredKey, error)
	// Keys lists keys, newest first, including revoked ones. Status is as of the store's time.
	Keys(ctx context.Context, p bloom.Page) (keys []bloom.APIKey, next bloom.Cursor, err error)
	// AnyKey reports whether a key was ever created in this database.
	AnyKey(ctx context.Context) (bool, error)
	// RevokeKey revokes a key and ends its sessions; repeating it changes nothing.
	RevokeKey(ctx context.Context, id, actor string) (bloom.APIKey, error)
	// CreateSession stores a session and removes expired ones. The caller sets ID, Name, Role,
	// KeyID, Address and Agent.
	CreateSession(ctx context.Context, s bloom.BrowserSession, life time.Duration, actor string) (StoredSession, error)
	// Session returns a session by its id, even an expired one; NotFound("Session").
	Session(ctx context.Context, id string) (StoredSession, error)
	// Sessions lists sessions, newest first.
	Sessions(ctx context.Context, p bloom.Page) (sessions []bloom.BrowserSession, next bloom.Cursor, err error)
	// RenewSession advances a session's turn and extends its life. It changes nothing when the
	// session is no longer at this turn, because another request was faster.
	RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (StoredSession, error)
	// EndSession removes a session; NotFound("Session").
	EndSession(ctx context.Context, id, actor string) error
	// NoteUse records when keys and sessions were last used, in Unix milliseconds by id. It ignores
	// unknown ids.
	NoteUse(ctx context.Context, keys, sessions map[string]int64) error
}
