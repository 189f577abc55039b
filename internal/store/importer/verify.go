package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"strings"
)

// verify compares a table in the file and in the database.
func (m *mover) verify(ctx context.Context, t table) (Imported, error) {
	const beyond = int64(1) << 62
	source, err := digest(t, func(fn func([]*string)) error { return m.eachSource(ctx, t, -beyond, beyond, fn) })
	if err != nil {
		return Imported{}, err
	}
	copied, err := digest(t, func(fn func([]*string)) error { return m.eachCopied(ctx, t, fn) })
	if err == nil && source != copied {
		err = fmt.Errorf("%w: %d rows in the file, %d in the database; import once more into an empty database", ErrDiffers, source.Rows, copied.Rows)
	}
	return copied, err
}

func (m *mover) eachCopied(ctx context.Context, t table, fn func([]*string)) error {
	var values []string
	for _, c := range t.columns {
		value := c.name + "::text"
		if c.kind == "boolean" {
			value = c.name + "::int::text"
		}
		values = append(values, value)
	}
	rows, err := m.to.Query(ctx, `SELECT `+strings.Join(values, ", ")+` FROM `+t.name+` ORDER BY `+t.pgOrder())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := t.scan(rows)
		if err != nil {
			return err
		}
		fn(row)
	}
	return rows.Err()
}

// scan reads a row of either database, nil for NULL.
func (t table) scan(rows interface{ Scan(fields ...any) error }) ([]*string, error) {
	row := make([]*string, len(t.columns))
	fields := make([]any, len(row))
	for i := range row {
		fields[i] = &row[i]
	}
	return row, rows.Scan(fields...)
}

// digest hashes rows in a form that both databases have: JSON without spaces and with sorted keys,
// because PostgreSQL keeps neither.
func digest(t table, each func(func([]*string)) error) (Imported, error) {
	d := Imported{Table: t.name}
	h := sha256.New()
	err := each(func(row []*string) {
		d.Rows++
		for i, v := range row {
			hashValue(h, v, t.columns[i].kind == "jsonb")
		}
	})
	d.SHA256 = hex.EncodeToString(h.Sum(nil))
	return d, err
}

func hashValue(h hash.Hash, v *string, canonical bool) {
	if v == nil {
		h.Write([]byte{0})
		return
	}
	text := []byte(*v)
	if canonical {
		var value any
		if json.Unmarshal(text, &value) == nil {
			text, _ = json.Marshal(value)
		}
	}
	fmt.Fprintf(h, "\x01%d:", len(text))
	h.Write(text)
}
