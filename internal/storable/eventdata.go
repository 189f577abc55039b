package storable

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// EventData returns raw as every store can keep it: valid JSON without NUL, lone surrogates or
// invalid UTF-8 (each becomes U+FFFD; invalid JSON becomes a string), truncated to MaxEventData
// bytes and marked when longer.
func EventData(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if !plainJSON(raw) {
		raw = cleanJSON(raw)
	}
	if len(raw) <= bloom.MaxEventData {
		return raw
	}
	return cutJSON(raw)
}

// plainJSON reports whether raw needs no change. Most data needs none, and is then never decoded.
func plainJSON(raw []byte) bool {
	return utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u0000`)) && !bytes.Contains(raw, []byte(`\ud`)) &&
		!bytes.Contains(raw, []byte(`\uD`)) && json.Valid(raw)
}

func cleanJSON(raw []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		v = string(raw)
	}
	return MustJSON(cleanValue(v))
}

func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return Text(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
		return v
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, e := range v {
			clean[Text(k)] = cleanValue(e)
		}
		return clean
	}
	return v
}

// cutJSON truncates the longest text of an object when that is enough. Of anything else it keeps
// the beginning as text.
func cutJSON(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil {
		longest := ""
		for k, v := range fields {
			if len(v) > len(fields[longest]) {
				longest = k
			}
		}
		var text string
		if rest := len(raw) - len(fields[longest]); rest < bloom.MaxEventData/2 && json.Unmarshal(fields[longest], &text) == nil {
			fields[longest] = MustJSON(cutText(text))
			fields["truncated"] = json.RawMessage("true")
			return MustJSON(fields)
		}
	}
	return MustJSON(map[string]any{"truncated": true, "size": len(raw), "text": cutText(string(raw))})
}

// cutText keeps the beginning of a text. Encoding can turn every byte into six, and the whole must
// stay below MaxEventData.
func cutText(s string) string {
	const most = bloom.MaxEventData/2 - 1024
	size := 0
	for i, r := range s {
		n := utf8.RuneLen(r)
		if r < 0x20 || r == '<' || r == '>' || r == '&' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029' {
			n = 6
		}
		if size += n; size > most {
			return s[:i]
		}
	}
	return s
}
