package jsonnum_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

type embedded struct {
	Inner string `json:"inner"`
}

type body struct {
	embedded
	Name   string `json:"name"`
	Policy *struct {
		X int `json:"x"`
	} `json:"policy,omitempty"` //nolint:tagalign // one line
	List   []embedded     `json:"list"`
	Free   map[string]any `json:"free"`
	Raw    json.RawMessage
	At     time.Time `json:"at"`
	hidden int
}

func TestTheFirstUnknownFieldIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", `null`: "", `[1,{"a":2}]`: "", `"x"`: "", ``: "",
		`{"name":"a\"b,}","policy":{"x":1},"list":[{"inner":"a"},null],"free":{"a":[{"b":1}]},"at":"x","inner":null}`: "",
		` { "NAME" : "a" , "policy" : null } `:   "",
		`{"name":"a","nam":1}`:                   "nam",
		`{"na\u006de":1,"n\u00e4me":{}}`:         "näme",
		`{"policy":{"x":1,"timeout":[1]}}`:       "policy.timeout",
		`{"list":[{"inner":"a"},{"outer":"b"}]}`: "list.outer",
		`{"hidden":1}`:                           "hidden",
		`{"a":`:                                  "a",
		`{"name":1.5e3,"free":true,"y":-1}`:      "y",
	} {
		if got, _ := jsonnum.Unknown([]byte(text), &body{hidden: 1}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestIgnoredFieldsAreNotUnknown(t *testing.T) {
	t.Parallel()
	text := []byte(`{"policy":{"retries":{"n":1}},"b":1}`)
	if got, known := jsonnum.Unknown(text, body{}, "policy."); got != "b" || len(known) != 6 {
		t.Errorf("%q instead of %q, want b", got, known)
	}
	if got, _ := jsonnum.Unknown(text, body{}, ""); got != "" {
		t.Errorf("%q, although all are ignored", got)
	}
}

// FuzzUnknownFields compares it with encoding/json, which refuses the same bodies.
func FuzzUnknownFields(f *testing.F) {
	f.Add([]byte(`{"inner":"a\\","list":[{"inner":"x"}],"n":1.0}`))
	type plain struct {
		embedded
		List []embedded `json:"list"`
		N    float64    `json:"n"`
		Free any        `json:"free"`
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		unknown, _ := jsonnum.Unknown(data, plain{}) // must return, whatever the data
		var v plain
		if json.Unmarshal(data, &v) != nil {
			return
		}
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&v); (err == nil) != (unknown == "") {
			t.Errorf("%q: %q, encoding/json says %v", data, unknown, err)
		}
	})
}
