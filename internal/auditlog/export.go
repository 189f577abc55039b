package auditlog

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// Formats of an export.
const (
	JSONL = "jsonl"
	CSV   = "csv"
)

// Columns of CSV.
var columns = []string{"seq", "time", "timestamp", "id", "action", "entity_type", "entity_id", "actor", "key_id", "address", "detail", "data", "hash"}

// Export writes the chained entries of a period, from inclusive and to exclusive, oldest first; a
// zero time means no bound. JSONL has the lines of exported files. It returns the number of entries.
func Export(ctx context.Context, chain audit.Reader, w io.Writer, format string, from, to time.Time) (n int64, err error) {
	write := writeJSONL(w)
	var table *csv.Writer
	if format == CSV {
		table = csv.NewWriter(w)
		write = func(l Line) error { return table.Write(record(l.Entry)) }
		if err := table.Write(columns); err != nil {
			return 0, err
		}
	}
	for after := int64(0); ; {
		_, prev, links, err := chain.AuditLinks(ctx, after, audit.PageSize)
		if err != nil {
			return n, err
		}
		for _, l := range links {
			if l.Hash == "" {
				links = nil
				break
			}
			if e := l.Entry; e != nil && within(e.Timestamp, from, to) {
				if err := write(Line{Entry: *e, Prev: prev.Hash}); err != nil {
					return n, err
				}
				n++
			}
			prev, after = l, l.Seq
		}
		if len(links) == 0 {
			if table != nil {
				table.Flush()
				return n, table.Error()
			}
			return n, nil
		}
	}
}

func within(at int64, from, to time.Time) bool {
	return (from.IsZero() || at >= from.UnixMilli()) && (to.IsZero() || at < to.UnixMilli())
}

func writeJSONL(w io.Writer) func(Line) error {
	var b []byte
	return func(l Line) error {
		b = AppendLine(b[:0], l)
		_, err := w.Write(b)
		return err
	}
}

func record(a bloom.Audit) []string {
	return []string{
		strconv.FormatInt(a.Seq, 10), time.UnixMilli(a.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z"), strconv.FormatInt(a.Timestamp, 10),
		escapeFormula(a.ID), escapeFormula(a.Action), escapeFormula(a.EntityType), escapeFormula(a.EntityID), escapeFormula(a.Actor), escapeFormula(a.KeyID), escapeFormula(a.Address),
		escapeFormula(a.Detail), escapeFormula(string(a.Data)), a.Hash,
	}
}

// escapeFormula prevents a spreadsheet from evaluating a cell as a formula: users choose the names of
// contexts, keys and workers. Some spreadsheets also accept the wide forms of the signs.
func escapeFormula(cell string) string {
	first, _ := utf8.DecodeRuneInString(cell)
	if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
