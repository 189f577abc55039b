package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/jsonnum"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// ignoredFields lists, by operation, the beginnings of the unknown fields that are
// ignored, because clients of the earlier implementation and older workers may send
// them. Any other request that changes something is refused if it has an unknown field.
var ignoredFields = map[string][]string{
	"complete-task":   {"metrics."}, // a worker's own measurements; its finished work must not be refused
	"dispatch-task":   {""},         // the earlier web application repeats what it knows of the lease
	"register-worker": {"capabilities.", "drain_order"},
}

// maxFieldShown is how many bytes of an unknown name an error repeats.
const maxFieldShown = 64

// knownFields refuses fields of a valid JSON body that the type of v does not have.
func (c *call) knownFields(body []byte, v any) error {
	name, known := jsonnum.Unknown(body, v, ignoredFields[c.operation]...)
	if name == "" {
		return nil
	}
	return unknown("field", name, known)
}

func unknown(what, name string, known []string) error {
	name = storable.Text(name)
	if len(name) > maxFieldShown {
		name = strings.ToValidUTF8(name[:maxFieldShown], "") + "…"
	}
	message := "Unknown " + what + " " + name + "; the known ones are " + strings.Join(known, ", ")
	if len(known) == 0 {
		message = "Unknown " + what + " " + name + "; this request has none"
	}
	return bloom.Invalid(message, bloom.FieldError{Field: name, Message: "is unknown"})
}

// noFields refuses a body with fields where a request has none. Other bodies are ignored.
func (s *Server) noFields(c *call) error {
	var buf bytes.Buffer
	if err := s.readBody(c, &buf, limitBody, nil); err != nil {
		return err
	}
	if body := buf.Bytes(); json.Valid(body) && !jsonnum.Exceeds(body) {
		return c.knownFields(body, none{})
	}
	return nil
}

// parameters returns the names of the query parameters of an input.
func parameters(in reflect.Type) []string {
	names := []string{}
	for _, f := range reflect.VisibleFields(in) {
		if name, _, _ := strings.Cut(f.Tag.Get("query"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// knownParameters refuses query parameters that an operation does not have.
func knownParameters(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bloom.Invalid("The query of the address is invalid")
	}
	for name := range given {
		if !slices.Contains(known, name) {
			return unknown("query parameter", name, known)
		}
	}
	return nil
}

// strictly refuses what a request that changes something does not know, before its
// handler reads the body.
func (s *Server) strictly(rt route, c *call, known []string) error {
	c.operation = rt.id
	if err := knownParameters(c.r, known); err != nil {
		return err
	}
	if (rt.method == http.MethodPost || rt.method == http.MethodDelete) && rt.body == nil && !rt.lines {
		return s.noFields(c)
	}
	return nil
}
