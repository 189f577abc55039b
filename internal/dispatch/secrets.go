package dispatch

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// SettingsStore is the part of a store that keeps settings.
type SettingsStore interface {
	Settings(ctx context.Context) (map[string]string, error)
	ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error
}

// KeyRing is a Sealer whose keys can change.
type KeyRing interface {
	Sealer
	// AddKey puts a new key first. DropKeys removes the other keys. Both keep every key
	// that one of the sealed values, by name, needs.
	AddKey(sealed map[string]string) error
	DropKeys(sealed map[string]string) error
}

// RotateSecrets creates a new key, seals the stored secret with it, and deletes the earlier keys
// unless keepOld is set. Deleting them ends browser sessions. It may be repeated after any failure:
// no key is deleted that the secret needs. If the secret is changed meanwhile, by another replica,
// it fails with a conflict.
func RotateSecrets(ctx context.Context, store SettingsStore, ring KeyRing, keepOld bool, actor string) (bloom.SecretRotation, error) {
	const name = settingMembridgeKey
	saved, err := store.Settings(ctx)
	if err != nil {
		return bloom.SecretRotation{}, err
	}
	sealed, secret := map[string]string{}, ""
	if saved[name] != "" {
		sealed[name] = saved[name]
		if secret, err = ring.Open(name, saved[name]); err != nil {
			return bloom.SecretRotation{}, bloom.Conflict("The secret %s was sealed with a key that is missing: restore secret.key, or save the secret again, and then rotate", name)
		}
	}
	if err := ring.AddKey(sealed); err != nil {
		return bloom.SecretRotation{}, err
	}
	if saved[name] != "" {
		if sealed[name], err = ring.Seal(name, secret); err != nil {
			return bloom.SecretRotation{}, bloom.Internal(err)
		}
	}
	// An absent secret is compared, too: a first one may be saved meanwhile.
	err = store.ReplaceSettings(ctx, map[string]string{name: saved[name]}, sealed, bloom.Audit{
		Action: audit.ActionSecretsRotated, EntityType: audit.EntityConfig, EntityID: "secrets", Actor: actor,
		Detail: fmt.Sprintf("%d secrets are sealed under a new key", len(sealed)),
	})
	switch {
	case bloom.KindOf(err) == bloom.KindConflict:
		return bloom.SecretRotation{}, bloom.Conflict("A secret was saved or rotated by another server in the meantime, and nothing was changed: rotate again")
	case err == nil && !keepOld:
		err = ring.DropKeys(sealed)
	}
	if err != nil {
		return bloom.SecretRotation{}, err
	}
	return bloom.SecretRotation{Secrets: len(sealed), KeptOld: keepOld}, nil
}

// RotateSecrets rotates the server's secrets.
func (s *Service) RotateSecrets(ctx context.Context, keepOld bool, actor string) (bloom.SecretRotation, error) {
	ring, ok := s.seal.(KeyRing)
	if !ok {
		return bloom.SecretRotation{}, bloom.Internal(fmt.Errorf("%T has no keys to rotate", s.seal))
	}
	s.configuring.Lock() // otherwise a key saved meanwhile would be lost
	defer s.configuring.Unlock()
	return RotateSecrets(ctx, s.store, ring, keepOld, actor)
}
