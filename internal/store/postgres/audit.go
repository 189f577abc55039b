package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// beginner is a connection or a pool.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// snapshot runs fn in a read-only transaction with one snapshot.
func snapshot(ctx context.Context, c beginner, fn func(store.Conn) error) (err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Commit(ctx)) }()
	return fn(reader{tx})
}

// Snapshot is like Run, with all queries of fn in one snapshot.
func (d *database) Snapshot(ctx context.Context, fn func(store.Conn) error) error {
	return d.Run(ctx, func(store.Conn) error { return snapshot(ctx, d.reads, fn) })
}

// Audit reads the audit of a database, even while servers use it. It must not be used
// by several goroutines at once.
type Audit struct{ c *pgx.Conn }

// OpenAudit connects to the database at url.
func OpenAudit(ctx context.Context, url string) (*Audit, error) {
	c, err := Connect(ctx, url)
	if err != nil {
		return nil, cannotConnect(err)
	}
	return &Audit{c}, nil
}

// AuditLinks is Store.AuditLinks.
func (a *Audit) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	err = snapshot(ctx, a.c, func(c store.Conn) (err error) {
		head, prev, links, err = store.ReadLinks(ctx, c, after, limit)
		return err
	})
	return head, prev, links, err
}

// AuditExport returns how far the audit was exported.
func (a *Audit) AuditExport(ctx context.Context) (at contract.AuditExport, err error) {
	err = snapshot(ctx, a.c, func(c store.Conn) (err error) {
		at, err = store.ReadExport(ctx, c)
		return err
	})
	return at, err
}

// Close ends the connection.
func (a *Audit) Close() { _ = a.c.Close(context.Background()) }
