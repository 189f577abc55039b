package schema

import (
	"context"
	"database/sql"
	"errors"
)

// ErrEarlier is returned for a database of the earlier Node implementation, which is never changed.
var ErrEarlier = errors.New("this is a database of the earlier implementation and is left unchanged; " +
	"copy its data into a new database with `bloom migrate import postgresql://USER@HOST/NAME`, see docs/optional/migrating.md")

// RefuseEarlier returns ErrEarlier if the tables of the earlier Node implementation are in the
// namespace, or with "" in the one where tables are created. Those tables never had an epoch.
func RefuseEarlier(ctx context.Context, db *sql.DB, namespace string) error {
	var is bool
	err := db.QueryRowContext(ctx, `SELECT EXISTS (
		SELECT FROM information_schema.tables t
		WHERE t.table_name = 'llm_tasks' AND t.table_schema = coalesce(nullif($1, ''), current_schema())
			AND NOT EXISTS (SELECT FROM information_schema.columns c
				WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.column_name = 'epoch'))`, namespace).Scan(&is)
	if err == nil && is {
		return ErrEarlier
	}
	return err
}
