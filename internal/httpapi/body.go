package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// Limits of request bodies, in bytes.
const (
	limitBody     = 1 << 20
	limitCreate   = 4 << 20
	limitComplete = 32 << 20
	limitEvents   = 32 << 20 // of one request; a single event is cut at bloom.MaxEventData
)

// maxDepth is how deep JSON may nest.
const maxDepth = 64

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the largest buffer that goes back to the pool: one huge request
// must not pin its memory.
const keepBuffer = 1 << 20

// decode reads a JSON body of at most limit bytes into the struct that dst points
// to, and refuses what is beyond the limits of its fields. An absent field and a
// null leave a field's default, unknown fields are ignored, and no body is the empty
// object.
func (s *Server) decode(c *call, limit int64, dst any) error {
	return s.decodeChecked(c, limit, dst, nil)
}

// decodeChecked is decode for bodies that may be large; check is readBody's.
func (s *Server) decodeChecked(c *call, limit int64, dst any, check func([]byte) error) error {
	input.Defaults(dst)
	if err := s.read(c, limit, dst, check); err != nil {
		return err
	}
	return input.Check(dst)
}

// read decodes a JSON body over what dst holds already.
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
	if tooDeep(body) {
		return bloom.Invalid("The body nests deeper than 64 levels")
	}
	return unmarshal(body, dst)
}

// unmarshal decodes JSON. Numbers like 120.0 and 1e3 are integers, in JSON Schema as
// for the programs that send them; Go's decoder refuses them.
func unmarshal(body []byte, dst any) error {
	err := json.Unmarshal(body, dst)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number") {
		err = json.Unmarshal(plainIntegers(body), dst)
	}
	return jsonError(err)
}

// plainIntegers is body with every whole number written without fraction and
// exponent. What is not JSON stays for the decoder to refuse.
func plainIntegers(body []byte) []byte {
	const inNumber = "+-.0123456789eE"
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '"':
			end := i + 1
			for end < len(body) && body[end] != '"' {
				if body[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(body))
			out, i = append(out, body[i:end]...), end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(body) && strings.IndexByte(inNumber, body[end]) >= 0 {
				end++
			}
			out, i = appendNumber(out, body[i:end]), end
		default:
			out, i = append(out, c), i+1
		}
	}
	return out
}

func appendNumber(out, number []byte) []byte {
	const exact = 1 << 53
	if f, err := strconv.ParseFloat(string(number), 64); err == nil && f == math.Trunc(f) && math.Abs(f) <= exact && bytes.ContainsAny(number, ".eE") {
		return strconv.AppendInt(out, int64(f), 10)
	}
	return append(out, number...)
}

func bodyError(err error) error {
	if err == nil {
		return nil
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errTooLarge(large.Limit)
	}
	return &bloom.Error{Kind: bloom.KindInvalid, Code: bloom.CodeInvalid, Message: "The body could not be read to its end", Cause: err}
}

func errTooLarge(limit int64) error {
	return &bloom.Error{Kind: bloom.KindTooLarge, Code: bloom.CodeTooLarge,
		Message: "The body is larger than the " + bytesText(limit) + " allowed here"}
}

func bytesText(n int64) string {
	return itoa(n>>20) + " MB"
}

// isJSON reports whether a body of this type is taken. No type at all is: many
// scripts send none, and a browser's form cannot leave it out.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || (strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// tooDeep counts brackets outside of strings. Whether it is JSON at all is for
// the decoder to say.
func tooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString:
			if j := bytes.IndexAny(body[i:], `"\`); j < 0 {
				return false
			} else if i += j; body[i] == '\\' {
				i++
			} else {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// jsonError says what is wrong with a body without repeating any of it.
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
