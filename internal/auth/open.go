package auth

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Store stores keys and sessions.
type Store interface {
	contract.AccessStore
	// Subscribe calls fn with changes; see contract.Store.
	Subscribe(fn func([]bloom.Change)) (stop func())
}

// Open enables the keys and sessions in the store and decides whether the server may start without
// any key. Browsers may exchange a key for a session, whose cookie is encrypted with seal. Call
// Open before the first request. Close undoes it.
func (a *Authenticator) Open(ctx context.Context, store Store, seal *Sealer, clock timing.Clock) error {
	a.store, a.seal, a.clock = store, seal, clock
	a.guesses, a.misses = guard.NewLimiter(clock, guessesPerKey), guard.NewLimiter(clock, missesPerNetwork)
	if a.mode != ModeDevelopment {
		a.listen(store)
		return nil
	}
	keyed, err := a.keyed(ctx)
	switch {
	case err != nil:
		return err
	case keyed:
	case a.workerKey:
		return errors.New("RUNTIME_WORKER_KEY is set but there is no admin key; set RUNTIME_API_KEY, too, or create one with `bloom keys create --offline --role admin --name NAME`")
	case !a.loopback:
		return errors.New("no RUNTIME_API_KEY is set, and other machines can reach a listener; " +
			"set a key (openssl rand -hex 32), create one with `bloom keys create --offline --role admin --name NAME`, " +
			"listen on 127.0.0.1, or, in a closed lab, pass --insecure-no-auth")
	}
	a.listen(store)
	return nil
}

func (a *Authenticator) listen(store Store) {
	a.unhook = store.Subscribe(func(changes []bloom.Change) {
		for _, c := range changes {
			if c.Kind == bloom.ChangeAccess || c.Kind == bloom.ChangeMissed {
				a.forget()
				return
			}
		}
	})
}

// Close undoes Open. The store stays open.
func (a *Authenticator) Close() {
	if a.unhook != nil {
		a.unhook()
	}
}

// forget clears the caches, so that each key and session is read again.
func (a *Authenticator) forget() {
	a.keys.clear()
	a.sessions.clear()
	a.any.clear()
}

// keyed reports whether a key was ever created in the store. That ends development mode for good:
// it does not come back when the last key is revoked.
func (a *Authenticator) keyed(ctx context.Context) (bool, error) {
	if a.over.Load() {
		return true, nil
	}
	if a.store == nil {
		return false, nil
	}
	keyed, err := a.any.get(ctx, "", func(ctx context.Context, _ string) (bool, error) { return a.store.AnyKey(ctx) })
	if keyed {
		a.over.Store(true)
	}
	return keyed, err
}

// Development reports whether no key is required now. When the store cannot say whether there is
// one, a key is required.
func (a *Authenticator) Development(ctx context.Context) bool {
	if a.mode != ModeDevelopment {
		return false
	}
	keyed, err := a.keyed(ctx)
	return err == nil && !keyed
}

// Mode returns how callers are authenticated, for the banner and the health report.
func (a *Authenticator) Mode() Mode {
	if a.mode == ModeDevelopment && a.over.Load() {
		return ModeKeys
	}
	return a.mode
}
