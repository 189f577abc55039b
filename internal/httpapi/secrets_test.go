package httpapi_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const savedSecret = "abcd-a-very-secret-key-wxyz"

// sealedKey returns the key to membridge as stored in the database.
func (r *fixture) sealedKey() string {
	r.t.Helper()
	saved, err := r.store.Settings(r.t.Context())
	must(r.t, err)
	return saved["membridge_admin_key"]
}

func TestSecretsAreSealedUnderANewKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	keyFile := filepath.Join(r.dir, auth.SealKeyFile)
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://bridge:8000","admin_key":"`+savedSecret+`"}`)
	cookie := cookieOf(t, r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`))
	before := r.sealedKey()
	oldKeys, err := os.ReadFile(keyFile)
	must(t, err)
	stolen, err := auth.NewSealer(string(oldKeys))
	must(t, err)

	var done bloom.SecretRotation
	r.call(200, &done, "POST", "/secrets/rotate", `{"keep_old":true}`)
	if done != (bloom.SecretRotation{Secrets: 1, KeptOld: true}) {
		t.Fatalf("rotated: %+v", done)
	}
	after := r.sealedKey()
	if opened, err := stolen.Open("membridge_admin_key", after); err == nil {
		t.Fatalf("the earlier key opens %q", opened)
	}
	if opened, err := stolen.Open("membridge_admin_key", before); err != nil || opened != savedSecret {
		t.Fatalf("before, it opened %q (%v)", opened, err)
	}
	r.key = ""
	r.call(200, nil, "GET", "/stats", "", "Cookie", cookie) // the previous key still decrypts
	r.key = adminKey

	r.call(200, &done, "POST", "/secrets/rotate", `{}`)
	r.key = ""
	r.fails(401, "unauthorized", "GET", "/stats", "", "Cookie", cookie)
	r.key = adminKey
	raw, err := os.ReadFile(keyFile)
	must(t, err)
	if strings.Count(string(raw), "\n") != 1 || strings.Contains(string(raw), strings.TrimSpace(string(oldKeys))) {
		t.Fatalf("the key file has %d lines", strings.Count(string(raw), "\n"))
	}
	// A server that starts now can read the secret.
	sealer, err := auth.OpenSealer(keyFile)
	must(t, err)
	other := &bridge{}
	again, err := dispatch.New(t.Context(), dispatch.Config{Store: r.store, Blobs: noBlobs{}, Seal: sealer, Membridge: other})
	must(t, err)
	defer again.Close()
	if other.key != savedSecret {
		t.Fatal("after two rotations the secret is not what it was")
	}
	var audit []bloom.Audit
	a := r.call(200, &audit, "GET", "/audit?action=secrets_rotated", "")
	if len(audit) != 2 || audit[0].Actor != "admin" || strings.Contains(string(a.body), savedSecret) {
		t.Fatalf("audit: %s", a.body)
	}
}

// After the key file was lost, a rotation must not make it worse.
func TestSecretsOfAnotherKeyStopTheRotation(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://bridge:8000","admin_key":"`+savedSecret+`"}`)
	keyFile := filepath.Join(r.dir, auth.SealKeyFile)
	right, err := os.ReadFile(keyFile)
	must(t, err)
	before := r.sealedKey()
	must(t, os.WriteFile(keyFile, []byte(strings.Repeat("ab", 32)+"\n"), 0o600))
	r.fails(409, "conflict", "POST", "/secrets/rotate", `{}`)
	if r.sealedKey() != before {
		t.Fatal("the secret was changed")
	}
	must(t, os.WriteFile(keyFile, right, 0o600))
	r.call(200, nil, "POST", "/secrets/rotate", `{}`)
}

func TestConfiguredKeysAreNotChanged(t *testing.T) {
	t.Parallel()
	older, newer := strings.Repeat("01", 32), strings.Repeat("02", 32)
	first, err := auth.NewSealer(older)
	must(t, err)
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.Seal = first })
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://bridge:8000","admin_key":"`+savedSecret+`"}`)
	f := r.fails(409, "conflict", "POST", "/secrets/rotate", `{}`)
	if !strings.Contains(f.Message, "BLOOM_SECRET_KEY") {
		t.Fatalf("says %q", f.Message)
	}
	// The operator put a new one before it and restarted the server.
	both, err := auth.NewSealer(newer + "," + older)
	must(t, err)
	done, err := dispatch.RotateSecrets(t.Context(), r.store, both, false, "somebody")
	must(t, err)
	alone, err := auth.NewSealer(newer)
	must(t, err)
	if opened, err := alone.Open("membridge_admin_key", r.sealedKey()); err != nil || opened != savedSecret || done.Secrets != 1 {
		t.Fatalf("opens %q (%v) after %+v", opened, err, done)
	}
}

// noSettings is a store that refuses to save settings a number of times.
type noSettings struct {
	contract.Store

	refusals atomic.Int64
}

func (s *noSettings) ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error {
	if s.refusals.Add(-1) >= 0 {
		return bloom.ErrUnavailable
	}
	return s.Store.ReplaceSettings(ctx, was, settings, a)
}

// overtaken is a store whose settings another replica changes just before they are replaced.
type overtaken struct {
	contract.Store

	by func()
}

func (s overtaken) ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error {
	s.by()
	return s.Store.ReplaceSettings(ctx, was, settings, a)
}

// TestSimultaneousChangesOfASecretConflict has another replica change the secret during a
// rotation, with the same key file and with its own.
func TestSimultaneousChangesOfASecretConflict(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"one key file": auth.SealKeyFile, "a copy of the key file": "copy.key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://bridge:8000","admin_key":"`+savedSecret+`"}`)
			keyFile := filepath.Join(r.dir, auth.SealKeyFile)
			keys, err := os.ReadFile(keyFile)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(r.dir, file), keys, 0o600))
			here, err := auth.OpenSealer(keyFile)
			must(t, err)
			there, err := auth.OpenSealer(filepath.Join(r.dir, file))
			must(t, err)
			_, err = dispatch.RotateSecrets(t.Context(), overtaken{r.store, func() {
				_, err := dispatch.RotateSecrets(t.Context(), r.store, there, false, "there")
				must(t, err)
			}}, here, false, "here")
			if bloom.KindOf(err) != bloom.KindConflict || !strings.Contains(err.Error(), "rotate again") {
				t.Errorf("the rotation that came second returned %v", err)
			}
			if opened, err := there.Open("membridge_admin_key", r.sealedKey()); err != nil || opened != savedSecret {
				t.Errorf("the rotation that came first left %q (%v)", opened, err)
			}
			_, err = dispatch.RotateSecrets(t.Context(), r.store, there, false, "there")
			must(t, err)
		})
	}
}

// However often a rotation fails, the key of the stored secret is kept, and so are the keys of
// earlier rotations, which backups need.
func TestFailedRotationsKeepTheKeyOfTheSecret(t *testing.T) {
	t.Parallel()
	store := &noSettings{}
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		store.Store = d.Store
		d.Store = store
	})
	keyFile := filepath.Join(r.dir, auth.SealKeyFile)
	first, err := os.ReadFile(keyFile)
	must(t, err)
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://bridge:8000","admin_key":"`+savedSecret+`"}`)
	for round, keepOld := range []string{"true", "false"} {
		store.refusals.Store(9)
		for range 9 {
			r.fails(503, "unavailable", "POST", "/secrets/rotate", `{"keep_old":`+keepOld+`}`)
		}
		sealer, err := auth.OpenSealer(keyFile)
		must(t, err)
		if opened, err := sealer.Open("membridge_admin_key", r.sealedKey()); err != nil || opened != savedSecret {
			t.Fatalf("round %d: after nine failures the secret opens as %q (%v)", round, opened, err)
		}
		if keys, err := os.ReadFile(keyFile); err != nil || !strings.HasSuffix(string(keys), string(first)) {
			t.Fatalf("round %d: the failures removed the key of earlier backups (%v)", round, err)
		}
		before := r.sealedKey()
		r.call(200, nil, "POST", "/secrets/rotate", `{"keep_old":`+keepOld+`}`)
		if r.sealedKey() == before {
			t.Fatalf("round %d: the secret was not sealed again", round)
		}
	}
	if keys, err := os.ReadFile(keyFile); err != nil || strings.Count(string(keys), "\n") != 1 || string(keys) == string(first) {
		t.Fatalf("the last rotation left %d keys (%v)", strings.Count(string(keys), "\n"), err)
	}
	alone, err := auth.OpenSealer(keyFile)
	must(t, err)
	if opened, err := alone.Open("membridge_admin_key", r.sealedKey()); err != nil || opened != savedSecret {
		t.Fatalf("the new key opens %q (%v)", opened, err)
	}
}
