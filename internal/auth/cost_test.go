package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// oneKey is a store with one key. It counts the reads of keys.
type oneKey struct {
	keyless
	key   contract.StoredKey
	asked atomic.Int32
}

func (s *oneKey) AnyKey(context.Context) (bool, error) { return true, nil }

func (s *oneKey) Key(_ context.Context, id string) (contract.StoredKey, error) {
	s.asked.Add(1)
	if id != s.key.ID {
		return contract.StoredKey{}, &bloom.Error{Kind: bloom.KindNotFound, Code: bloom.CodeNotFound, Message: "Key not found"}
	}
	return s.key, nil
}

// Neither the response nor its cost reveals whether an id exists: wrong secrets of a known key and
// of an unknown one are read and compared in the same way, uncached and cached.
func TestAnUnknownKeyCostsWhatAKnownOneCosts(t *testing.T) {
	t.Parallel()
	const known, unknown, secret = "blm_abcdefghijklmnop_", "blm_ponmlkjihgfedcba_", "the-secret-of-the-test"
	sum := sha256.Sum256([]byte(known + secret))
	store := &oneKey{key: contract.StoredKey{Digest: hex.EncodeToString(sum[:]), APIKey: bloom.APIKey{ID: "abcdefghijklmnop", Name: "n", Role: auth.RoleAdmin}}}
	a, err := auth.New(auth.Config{LoopbackOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context(), store, nil, timing.System{}); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ask := func(key string) (answer string, read int32) {
		before := store.asked.Load()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(auth.HeaderKey, key)
		_, err := a.Authenticate(r)
		return strings.ReplaceAll(errorOf(err), key, ""), store.asked.Load() - before
	}
	for range 3 {
		wrong, read := ask(known + "x")
		strange, readStrange := ask(unknown + "x")
		if wrong == "" || wrong != strange || read != readStrange {
			t.Errorf("a wrong secret is answered %q after %d reads, an unknown key %q after %d", wrong, read, strange, readStrange)
		}
	}
	if answer, _ := ask(known + secret); answer != "" {
		t.Errorf("the key itself: %s", answer)
	}
}

// A server that receives no notification of a revocation still reads the key again soon, because it
// caches keys only briefly.
func TestARevocationThatNobodyAnnouncesHolds(t *testing.T) {
	t.Parallel()
	const text = "blm_abcdefghijklmnop_the-secret-of-the-test"
	sum := sha256.Sum256([]byte(text))
	key := contract.StoredKey{Digest: hex.EncodeToString(sum[:]), APIKey: bloom.APIKey{ID: "abcdefghijklmnop", Name: "n", Role: auth.RoleAdmin}}
	store := &laterRevoked{oneKey: oneKey{key: key}}
	a, err := auth.New(auth.Config{LoopbackOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context(), store, nil, timing.System{}); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set(auth.HeaderKey, text)
	if _, err := a.Authenticate(r); err != nil {
		t.Fatal(err)
	}
	store.revoked.Store(true)
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := a.Authenticate(r); err != nil {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the revoked key is taken on and on")
		}
	}
}

// laterRevoked is oneKey with a key that is revoked at some time.
type laterRevoked struct {
	oneKey
	revoked atomic.Bool
}

func (s *laterRevoked) Key(ctx context.Context, id string) (contract.StoredKey, error) {
	k, err := s.oneKey.Key(ctx, id)
	if at := int64(1); s.revoked.Load() {
		k.RevokedAt = &at
	}
	return k, err
}

func errorOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
