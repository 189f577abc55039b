package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

// Limits of request bodies, in bytes.
const (
	limitBody     = 1 << 20
	limitCreate   = 4 << 20
	limitComplete = 32 << 20
	limitEvents   = 32 << 20 // of one request; a single event is truncated at bloom.MaxEventData
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the capacity of the largest buffer that is returned to the pool, so
// that one huge request does not keep its memory.
const keepBuffer = 1 << 20

// decode reads a JSON body of at most limit bytes into the struct that dst points to,
// and checks the limits of its fields. Absent and null fields keep their defaults, and
// an empty body is the empty object. Unknown fields are errors, because a misspelt one
// may be a restriction; see ignoredFields.
func (s *Server) decode(c *call, limit int64, dst any) error {
	return s.decodeChecked(c, limit, dst, nil)
}

// decodeChecked is decode for bodies that may be large. check is that of readBody.
func (s *Server) decodeChecked(c *call, limit int64, dst any, check func([]byte) error) error {
	input.Defaults(dst)
	if err := s.read(c, limit, dst, check); err != nil {
		return err
	}
	return input.Check(dst)
}

// read decodes a JSON body into dst, keeping what dst has for absent fields, and refuses
// fields that dst does not have.
func (s *Server) read(c *call, limit int64, dst any, check func([]byte) error) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= keepBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if err := s.readBody(c, buf, limit, check); err != nil {
		return err
	}
	body := bytes.TrimSpace(buf.Bytes())
	if len(body) == 0 {
		return nil
	}
	if !isJSON(c.r.Header.Get("Content-Type")) {
		return errUnsupportedMedia
	}
	if jsonnum.Exceeds(body) {
		return bloom.Invalid("The body nests deeper than 64 levels or has more than 20000 values")
	}
	if err := unmarshal(body, dst); err != nil {
		return err
	}
	return c.knownFields(body, dst)
}

// unmarshal decodes JSON. It also accepts integers written like 120.0 and 1e3, which
// JSON Schema allows and encoding/json refuses.
func unmarshal(body []byte, dst any) error {
	err := json.Unmarshal(body, dst)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number") {
		err = jsonnum.Unmarshal(body, dst)
	}
	return jsonError(err)
}

func bodyError(err error) error {
	if err == nil {
		return nil
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errTooLarge(large.Limit)
	}
	return &bloom.Error{Kind: bloom.KindInvalid, Code: bloom.CodeInvalid, Message: "The body could not be read completely", Cause: err}
}

func errTooLarge(limit int64) error {
	return &bloom.Error{Kind: bloom.KindTooLarge, Code: bloom.CodeTooLarge,
		Message: "The body is larger than the " + bytesText(limit) + " allowed here"}
}

func bytesText(n int64) string {
	if n < 1<<20 {
		return itoa(n>>10) + " KB"
	}
	return itoa(n>>20) + " MB"
}

// isJSON reports whether a body with this content type is accepted. Without a content
// type it is: many scripts send none.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || (strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// jsonError describes what is wrong with a body without quoting it.
func jsonError(err error) error {
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		if wrongType.Field == "" {
			return bloom.Invalid("The body must be a JSON object")
		}
		return bloom.Invalid("A field has the wrong type: "+wrongType.Field,
			bloom.FieldError{Field: wrongType.Field, Message: "must be " + typeText(wrongType.Type)})
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return bloom.Invalid("The body is not valid JSON (near byte " + itoa(syntax.Offset) + ")")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return bloom.Invalid("The body is not valid JSON: it ends too early")
	}
	return bloom.Invalid("The body is not valid JSON")
}

func typeText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
