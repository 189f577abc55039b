package schema_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom/internal/schema"
)

func TestAListIsReadAsItWasStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list []string
		text string
		back []string
	}{
		"nil is an empty list":      {nil, `[]`, []string{}},
		"an empty list":             {[]string{}, `[]`, []string{}},
		"in its order, repeats too": {[]string{"b", "a", "b"}, `["b","a","b"]`, []string{"b", "a", "b"}},
		"what no store can keep":    {[]string{"a\x00"}, `["a` + "\uFFFD" + `"]`, []string{"a\uFFFD"}},
	} {
		text := schema.ListJSON(c.list)
		if text != c.text {
			t.Errorf("%s: kept as %s", name, text)
		}
		if d := cmp.Diff(c.back, schema.ParseList(text)); d != "" {
			t.Errorf("%s (-kept +read):\n%s", name, d)
		}
	}
	for _, none := range []string{"", "{"} {
		if l := schema.ParseList(none); l == nil || len(l) > 0 {
			t.Errorf("%q was read as %#v", none, l)
		}
	}
}

func TestOneKeyForOneSetOfLabels(t *testing.T) {
	t.Parallel()
	labels := []string{"gpu", "arm", "gpu"}
	key := schema.LabelKey(labels)
	sum := sha256.Sum256([]byte("arm\x00gpu"))
	if key != hex.EncodeToString(sum[:]) || key != schema.LabelKey([]string{"arm", "gpu"}) {
		t.Errorf("the key is %s", key)
	}
	if d := cmp.Diff([]string{"gpu", "arm", "gpu"}, labels); d != "" {
		t.Errorf("the caller's list was changed:\n%s", d)
	}
	if none := schema.LabelKey(nil); none != "" {
		t.Errorf("no labels are %q", none)
	}
}

func TestIDsFollowTheStoresClock(t *testing.T) {
	t.Parallel()
	const ms = 1_700_000_000_123
	text := schema.NewID(ms)
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Fatalf("%s: %v", text, err)
	}
	if sec, nsec := id.Time().UnixTime(); sec*1000+nsec/1e6 != ms {
		t.Errorf("%s is of %d s %d ns", text, sec, nsec)
	}
	if later := schema.NewID(ms + 1); later <= text {
		t.Errorf("%s is not after %s", later, text)
	}
	if text == schema.NewID(ms) {
		t.Error("the same id twice")
	}
}
