package auth_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
)

// FuzzKeys: a key that is almost right is refused.
func FuzzKeys(f *testing.F) {
	const key = "fuzzing-key-0123456789"
	a, err := auth.New(auth.Config{AdminKey: key})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{key, key[1:], "Bearer " + key, "bearer", "bearer  x", "bloom_session=v1:AAAA", "\x00"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, own, bearer, cookie string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["X-Runtime-Api-Key"], r.Header["Authorization"], r.Header["Cookie"] = []string{own}, []string{bearer}, []string{cookie}
		who, err := a.Authenticate(r)
		right := own == key || own == "" && strings.TrimSpace(bearer[min(7, len(bearer)):]) == key
		if (err == nil) != who.Known() || who.Known() && !right {
			t.Fatalf("%q, %q, %q is %+v: %v", own, bearer, cookie, who, err)
		}
	})
}
