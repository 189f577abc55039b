package dispatch

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// cleanData is an event's data as every store can keep it: valid, without NUL
// and lone surrogates, and no longer than bloom.MaxEventData. Nothing becomes
// the empty object.
func cleanData(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return json.RawMessage("{}")
	}
	if suspicious(raw) {
		raw = rewritten(raw)
	}
	if len(raw) > bloom.MaxEventData {
		raw = cut(raw)
	}
	return raw
}

// suspicious finds what only a decoder can judge: bytes that are no UTF-8, and
// escapes of NUL or of surrogates.
func suspicious(raw []byte) bool {
	if !utf8.Valid(raw) {
		return true
	}
	for rest := raw; ; {
		i := bytes.Index(rest, []byte(`\u`))
		if i < 0 || len(rest) < i+6 {
			return false
		}
		if hex := rest[i+2 : i+6]; string(hex) == "0000" || hex[0]|0x20 == 'd' {
			return true
		}
		rest = rest[i+2:]
	}
}

func rewritten(raw json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return json.RawMessage("{}")
	}
	return encode(cleanValue(v))
}

func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return bloom.CleanText(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, inner := range v {
			clean[bloom.CleanText(k)] = cleanValue(inner)
		}
		return clean
	}
	return v
}

// encode writes v without escaping <, > and &: what a worker sent stays
// readable.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// cut shortens data that is too long and marks it. An object keeps its small
// fields and the beginning of its longest text; anything else is shown as text.
func cut(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil {
		longest := ""
		for k, v := range fields {
			if longest == "" || len(v) > len(fields[longest]) {
				longest = k
			}
		}
		var text string
		if json.Unmarshal(fields[longest], &text) == nil {
			// Room for the other fields, and for escapes that make text grow.
			rest := len(raw) - len(fields[longest])
			if room := bloom.MaxEventData - rest - 1024; room > 0 {
				fields[longest] = fitted(text, room)
				fields["truncated"] = json.RawMessage("true")
				return encode(fields)
			}
		}
	}
	return encode(map[string]any{"truncated": true, "text": fitted(string(raw), bloom.MaxEventData-1024)})
}

// fitted is the beginning of text as a JSON string of at most room bytes.
func fitted(text string, room int) json.RawMessage {
	n := min(len(text), room)
	for {
		for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		if out := encode(text[:n]); len(out) <= room || n == 0 {
			return out
		}
		n = n * 3 / 4
	}
}
