package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	lite "modernc.org/sqlite"
)

// conn is a connection and its prepared statements. It must not be used by several
// goroutines at once. It bypasses database/sql, which costs a lock, a goroutine and
// several allocations per statement.
type conn struct {
	// ctx ends the statements of a reader with its caller. Others have background: interrupting a
	// statement can roll back the whole transaction, in which are the operations of many callers.
	ctx   context.Context
	dc    driver.Conn
	stmts map[string]stmt
	args  []driver.NamedValue
}

type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// background is the context of all statements that write, begin or end a transaction.
var background = context.Background()

func dial(dsn string, pragmas ...string) (*conn, error) {
	dc, err := (&lite.Driver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{ctx: background, dc: dc, stmts: make(map[string]stmt)}
	for _, p := range pragmas {
		if _, err := c.exec("PRAGMA " + p); err != nil {
			return nil, errors.Join(fmt.Errorf("pragma %s: %w", p, err), c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close()
	}
	return c.dc.Close()
}

// prepare caches every statement: there are as many as query texts in this package.
// Queries use LIMIT +?, because SQLite recompiles a statement for every value of a
// bare parameter there.
func (c *conn) prepare(query string) (stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	ds, err := c.dc.(driver.ConnPrepareContext).PrepareContext(background, query)
	if err != nil {
		return nil, fmt.Errorf("%w, in: %s", err, query)
	}
	s := ds.(stmt)
	c.stmts[query] = s
	return s, nil
}

func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: value(a)})
	}
	return c.args
}

// value converts an argument to a driver value.
func value(a any) driver.Value {
	switch v := a.(type) {
	case nil, string, []byte, int64, float64:
		return v
	case int:
		return int64(v)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case *string:
		if v == nil {
			return nil
		}
		return *v
	case *int64:
		if v == nil {
			return nil
		}
		return *v
	case json.RawMessage:
		return string(v)
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String {
		return v.String()
	}
	panic(fmt.Sprintf("sqlite: cannot bind a %T", a))
}

// exec runs a statement and returns the number of rows it changed.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(background, c.bind(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// each calls fn with every row, which is only valid during the call. fn must not use
// the connection.
func (c *conn) each(query string, fn func(row) error, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(c.ctx, c.bind(args))
	if err != nil {
		return err
	}
	r := make(row, len(rows.Columns()))
	for {
		err := rows.Next(r)
		if err == nil {
			err = fn(r)
		}
		if err == nil {
			err = c.ctx.Err() // the driver interrupts only the search for the first row
		}
		if err != nil {
			closing := rows.Close()
			if errors.Is(err, io.EOF) || errors.Is(err, errStop) {
				err = nil
			}
			return errors.Join(err, closing)
		}
	}
}

// errStop makes each return nil at once.
var errStop = errors.New("stop")

// one returns the first row, or ok false if there is none.
func (c *conn) one(query string, args ...any) (r row, ok bool, err error) {
	err = c.each(query, func(found row) error {
		r, ok = found, true
		return errStop
	}, args...)
	return r, ok, err
}

// number returns a query's single number, 0 for NULL and for no row.
func (c *conn) number(query string, args ...any) (int64, error) {
	r, ok, err := c.one(query, args...)
	if err != nil || !ok {
		return 0, err
	}
	return r.int(0), nil
}

// row is one row of a result. The getters return the zero value for NULL.
type row []driver.Value

func (r row) str(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r row) strp(i int) *string {
	if s, ok := r[i].(string); ok {
		return &s
	}
	return nil
}

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) intp(i int) *int64 {
	if n, ok := r[i].(int64); ok {
		return &n
	}
	return nil
}

func (r row) bool(i int) bool { return r.int(i) != 0 }
