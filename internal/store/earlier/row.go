package earlier

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// text returns a column as text, empty if it is absent or null.
func (r row) text(column string) string {
	switch v := r[column].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

func (r row) int(column string) int64 { return r.intOr(column, 0) }

// intOr returns a column as an integer; some versions stored numbers as text.
func (r row) intOr(column string, absent int64) int64 {
	switch v := r[column].(type) {
	case float64:
		return int64(v)
	case string:
		var f float64
		if _, err := fmt.Sscan(v, &f); err == nil {
			return int64(f)
		}
	}
	return absent
}

// object returns a JSON object, nil if the column is none.
func (r row) object(column string) row {
	if m, ok := r[column].(map[string]any); ok {
		return m
	}
	return nil
}

// values returns a JSON array, nil if the column is none.
func (r row) values(column string) []any {
	values, _ := r[column].([]any)
	return values
}

// list returns a column as a JSON array of texts.
func (r row) list(column string) string {
	values := r.values(column)
	out := make([]string, 0, len(values))
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
		} else {
			out = append(out, string(storable.MustJSON(v)))
		}
	}
	return string(storable.MustJSON(out))
}

func last(rows []row) row {
	if len(rows) == 0 {
		return nil
	}
	return rows[len(rows)-1]
}

// idSpace is the namespace of the UUIDs that replace other ids. An id always gets the same one.
var idSpace = uuid.MustParse("6f0c2f5e-6b1b-5d57-9d0f-3f1a0c7e9b11")

func uuidOf(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return uuid.NewSHA1(idSpace, []byte(id)).String()
}

func clamp(n, low, high int64) int64 { return min(max(n, low), high) }

func format(f string) string {
	if strings.EqualFold(f, "json") {
		return "json"
	}
	return "text"
}

// metrics returns the metrics that existed then.
func metrics(m row) string {
	var out bloom.Metrics
	out.DurationMS = max(0, m.int("duration_ms"))
	if _, there := m["tokens_used"]; there {
		n := max(0, m.int("tokens_used"))
		out.TokensUsed = &n
	}
	return string(storable.MustJSON(out))
}
