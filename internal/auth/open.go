package auth

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
)

// Store is what an Authenticator keeps keys and sessions in.
type Store interface {
	bloom.AccessStore
	// Subscribe calls fn with changes; see bloom.Store.
	Subscribe(fn func([]bloom.Change)) (stop func())
}

// Open lets keys and sessions of the store count besides the configured keys, and
// decides whether the server may start without any. Browsers may exchange a key for a
// session, whose cookie is sealed with seal. It is called before the first request.
// Close ends it.
func (a *Authenticator) Open(ctx context.Context, store Store, seal *Sealer, clock bloom.Clock) error {
	a.store, a.seal, a.clock = store, seal, clock
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
		return errors.New("RUNTIME_WORKER_KEY is set but there is no admin's key; set RUNTIME_API_KEY too, or create one with `bloom keys create --offline --role admin --name NAME`")
	case !a.loopback:
		return errors.New("no RUNTIME_API_KEY is set, and a listener can be reached from other machines; " +
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

// Close ends what Open began. The store stays open.
func (a *Authenticator) Close() {
	if a.unhook != nil {
		a.unhook()
	}
}

// forget makes the next request of each key and session read it again.
func (a *Authenticator) forget() {
	a.keys.clear()
	a.sessions.clear()
	a.any.clear()
}

// keyed reports whether a key was ever created in the store. Then development mode is
// over, for good: it does not come back when the last key is revoked.
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

// Development reports whether nobody needs a key now. Where the store cannot say whether
// there is one, everybody needs one.
func (a *Authenticator) Development(ctx context.Context) bool {
	if a.mode != ModeDevelopment {
		return false
	}
	keyed, err := a.keyed(ctx)
	return err == nil && !keyed
}

// Mode tells how callers are told apart, for the banner and the health answer.
func (a *Authenticator) Mode() Mode {
	if a.mode == ModeDevelopment && a.over.Load() {
		return ModeKeys
	}
	return a.mode
}
