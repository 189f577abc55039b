package dispatch

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
)

// sealedSettings are the settings that rest in the store encrypted.
var sealedSettings = []string{settingMembridgeKey}

// SettingsStore is the part of a store that keeps settings.
type SettingsStore interface {
	Settings(ctx context.Context) (map[string]string, error)
	PutSettings(ctx context.Context, settings map[string]string, a bloom.Audit) error
}

// KeyRing is a Sealer whose keys can change.
type KeyRing interface {
	Sealer
	// AddKey puts a new key first; DropKeys removes all others.
	AddKey() error
	DropKeys() error
}

// RotateSecrets makes a new key, seals every secret under it, and drops the earlier
// keys unless keepOld; browsers then have to sign in again. It may be repeated after
// any failure: until the last step the earlier keys are kept.
func RotateSecrets(ctx context.Context, store SettingsStore, ring KeyRing, keepOld bool, actor string) (bloom.SecretRotation, error) {
	if err := ring.AddKey(); err != nil {
		return bloom.SecretRotation{}, err
	}
	saved, err := store.Settings(ctx)
	if err != nil {
		return bloom.SecretRotation{}, err
	}
	anew := map[string]string{}
	for _, name := range sealedSettings {
		if saved[name] == "" {
			continue
		}
		secret, err := ring.Open(name, saved[name])
		if err != nil {
			return bloom.SecretRotation{}, bloom.Conflict("The secret %s was sealed under a key that is not here: restore secret.key, or save the secret again, and then rotate", name)
		}
		if anew[name], err = ring.Seal(name, secret); err != nil {
			return bloom.SecretRotation{}, bloom.Internal(err)
		}
	}
	err = store.PutSettings(ctx, anew, bloom.Audit{
		Action: bloom.ActionSecretsRotated, EntityType: bloom.EntityConfig, EntityID: "secrets", Actor: actor,
		Detail: fmt.Sprintf("%d secrets are sealed under a new key", len(anew)),
	})
	if err != nil {
		return bloom.SecretRotation{}, err
	}
	if !keepOld {
		if err := ring.DropKeys(); err != nil {
			return bloom.SecretRotation{}, err
		}
	}
	return bloom.SecretRotation{Secrets: len(anew), KeptOld: keepOld}, nil
}

// RotateSecrets is the package's function of that name for the server's own secrets.
func (s *Service) RotateSecrets(ctx context.Context, keepOld bool, actor string) (bloom.SecretRotation, error) {
	ring, ok := s.seal.(KeyRing)
	if !ok {
		return bloom.SecretRotation{}, bloom.Internal(fmt.Errorf("%T has no keys to rotate", s.seal))
	}
	s.configuring.Lock() // or a key that is saved meanwhile would be lost
	defer s.configuring.Unlock()
	return RotateSecrets(ctx, s.store, ring, keepOld, actor)
}
