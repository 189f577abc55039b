package jsonnum_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

func TestIntegersInEveryNotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{`120`: 120, `120.0`: 120, `1.2e2`: 120, `-3.00`: -3, `5E0`: 5, `9007199254740992.0`: 1 << 53} {
		var got int64
		if err := jsonnum.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{`120.5`, `1e400`, `1e60`, `1.`, `--1.0`, `1.0.0`} {
		var got int64
		if err := jsonnum.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is taken for %d", text, got)
		}
	}
}

func FuzzNothingButNumbersChanges(f *testing.F) {
	f.Add([]byte(`{"a":[1.0,"2.0\"3.0",-4e1,{"b":0.5}],"c":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var plain, ours any
		err1, err2 := json.Unmarshal(data, &plain), jsonnum.Unmarshal(data, &ours)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %v, with us %v", data, err1, err2)
		}
		if !reflect.DeepEqual(plain, ours) {
			t.Errorf("%q: %v, with us %v", data, plain, ours)
		}
	})
}
