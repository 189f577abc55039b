package earlier

import (
	"fmt"
	"strings"
)

// converted has the rows to write.
type converted struct{ tables []*table }

// table has the rows of one of our tables.
type table struct {
	name    string
	columns []string
	rows    [][]any
	read    int64
	note    string
}

func (t *table) insert() string {
	marks := strings.TrimSuffix(strings.Repeat("?,", len(t.columns)), ",")
	return `INSERT INTO ` + t.name + ` (` + strings.Join(t.columns, ", ") + `) VALUES (` + marks + `)`
}

func newTable(name, columns string) *table {
	return &table{name: name, columns: strings.Fields(columns)}
}

func (t *table) add(values ...any) {
	if len(values) != len(t.columns) {
		panic(fmt.Sprintf("earlier: %s has %d columns, not %d", t.name, len(t.columns), len(values)))
	}
	t.rows = append(t.rows, values)
}
