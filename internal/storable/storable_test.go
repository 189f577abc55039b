package storable_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func TestCleanTextKeepsWhatEveryStoreCanKeep(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain Привіт 🌱":    "plain Привіт 🌱",
		"nul\x00here":       "nul\uFFFDhere",
		"bad\xff\xfebytes":  "bad\uFFFDbytes",
		"\xed\xa0\x80 lone": "\uFFFD lone",
	} {
		got := storable.Text(in)
		if got != want || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if again := storable.Text(got); again != got {
			t.Errorf("cleaning %q again gave %q", got, again)
		}
	}
}

func FuzzEventData(f *testing.F) {
	f.Add([]byte(`{"text":"a\u0000b"}`))
	f.Add([]byte(`{"text":"\ud800"}`))
	f.Add([]byte("\xff"))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := storable.EventData(raw)
		if len(got) > bloom.MaxEventData || !utf8.Valid(got) || strings.Contains(string(got), "\x00") {
			t.Fatalf("%q became %q", raw, got)
		}
		if again := storable.EventData(got); string(again) != string(got) {
			t.Fatalf("%q is not stable: %q", got, again)
		}
	})
}
