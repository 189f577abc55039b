package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const (
	// DefaultExportEvery is how often new audit entries are written to a file.
	DefaultExportEvery = time.Minute
	// ExportBatch is the maximum number of entries in a file. A full file is written at
	// once.
	ExportBatch = 10_000
	// exportBytes is the maximum size of a file, which is built in memory.
	exportBytes = 16 << 20
	exportPage  = 500
	// reconcileTries and reconcilePause are how long a run waits for entries to be chained
	// before it can compare them with the files.
	reconcileTries = 50
	reconcilePause = 100 * time.Millisecond
)

// AuditExportConfig is what AuditExport needs. Store and Files are required.
type AuditExportConfig struct {
	Store contract.AuditChainStore
	Files auditlog.Files
	// Installation is the id of the servers that share the database, which alone may write Files;
	// with "" that is not checked.
	Installation string
	Logger       *slog.Logger  // discards when nil
	Every        time.Duration // DefaultExportEvery when 0
	// Wrote, if not nil, is called after every file, for metrics.
	Wrote func(entries int)
}

type auditExport struct {
	AuditExportConfig
	reconciled bool // the files were compared with the database; guarded by the loop's turn
}

// NewAuditExport makes the loop that writes the audit to files: in order, completely, and
// each entry once. Before it writes a file, it records in the database which entries the
// file will have, and afterwards that it was written. After a crash, the next run therefore
// writes the same file under the same name.
func NewAuditExport(c AuditExportConfig) *Loop {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	e := &auditExport{AuditExportConfig: c}
	return newLoop("audit-export", cmp.Or(c.Every, DefaultExportEvery), c.Logger, e.once)
}

// NewAuditExportFull makes the loop that runs export as soon as there are enough entries for
// a full file.
func NewAuditExportFull(store contract.AuditChainStore, export *Loop, logger *slog.Logger) *Loop {
	return newLoop("audit-export-full", DefaultExportEvery/30, logger, func(ctx context.Context) (Result, error) {
		lag, err := store.AuditLag(ctx)
		if err == nil && lag.ToExport >= ExportBatch {
			export.RunSoon()
		}
		return Result{}, err
	})
}

// NewAuditMove makes the loop that moves audit files from the previous export location to
// the current one.
func NewAuditMove(move func(context.Context) (int, error), logger *slog.Logger) *Loop {
	return newLoop("audit-move", DefaultExportEvery, logger, func(ctx context.Context) (res Result, err error) {
		res.Changed, err = move(ctx)
		res.Detail = fmt.Sprintf("moved %d audit files to the current export location", res.Changed)
		return res, err
	})
}

func (e *auditExport) once(ctx context.Context) (res Result, err error) {
	if !e.reconciled && e.Installation != "" {
		if err := auditlog.Claim(ctx, e.Files, e.Installation); err != nil {
			return res, err
		}
	}
	for try := 0; !e.reconciled; try++ {
		if e.reconciled, err = e.reconcile(ctx); err != nil || !e.reconciled && try == reconcileTries {
			return res, err
		}
		if !e.reconciled { // wait until the entries are chained
			if err := retry.Sleep(ctx, reconcilePause); err != nil {
				return res, err
			}
		}
	}
	files := 0
	for {
		n, err := e.file(ctx)
		if n > 0 {
			res.Changed += n
			files++
		}
		if err != nil || n == 0 {
			res.Detail = fmt.Sprintf("exported %d audit entries in %d files", res.Changed, files)
			return res, err
		}
	}
}

// file writes the next file and returns its number of entries, 0 if there is nothing to
// write.
func (e *auditExport) file(ctx context.Context) (int, error) {
	at, err := e.Store.AuditExport(ctx)
	if err != nil {
		return 0, err
	}
	b, err := e.collect(ctx, at)
	if err != nil || b.n == 0 {
		return 0, err
	}
	if at.Planned == 0 {
		plan := at
		plan.Planned = b.file.Last
		if err := e.Store.SetAuditExport(ctx, at, plan); err != nil {
			return 0, err
		}
		at = plan
	}
	if err := auditlog.Put(ctx, e.Files, b.file, b.lines); err != nil {
		return 0, err
	}
	if err := e.Store.SetAuditExport(ctx, at, contract.AuditExport{Exported: b.file.Last, Hash: b.hash, Planned: 0, Branch: at.Branch}); err != nil {
		return 0, err
	}
	if e.Wrote != nil {
		e.Wrote(b.n)
	}
	return b.n, nil
}

// batch is the content of one file.
type batch struct {
	file  auditlog.File
	lines []byte
	n     int
	hash  string // of the last entry
}

// collect reads the entries of the next file: the planned ones, else the next chained
// entries of one day.
func (e *auditExport) collect(ctx context.Context, at contract.AuditExport) (b batch, err error) {
	after, before := at.Exported, audit.Link{}
	for {
		_, prev, links, err := e.Store.AuditLinks(ctx, after, exportPage)
		if err != nil || len(links) == 0 {
			return b, err
		}
		if b.n == 0 && before.Seq == 0 {
			before = prev
		}
		for _, l := range links {
			after = l.Seq
			switch {
			case l.Hash == "" && l.Entry != nil && at.Planned == 0, at.Planned > 0 && l.Seq > at.Planned:
				return b, nil
			case l.Hash == "" || l.Entry == nil:
			case !b.add(*l.Entry, before, at):
				return b, nil
			}
			before = l
		}
	}
}

// add appends an entry. It returns false if the entry belongs in the next file.
func (b *batch) add(a bloom.Audit, before audit.Link, at contract.AuditExport) bool {
	if b.n == 0 {
		b.file = auditlog.File{Day: auditlog.Day(a.Timestamp), First: a.Seq, Start: before.Seq != at.Exported, Branch: at.Branch}
	}
	if at.Planned == 0 && (auditlog.Day(a.Timestamp) != b.file.Day || b.n == ExportBatch || len(b.lines) >= exportBytes) {
		return false
	}
	b.lines = auditlog.AppendLine(b.lines, auditlog.Line{Entry: a, Prev: before.Hash})
	b.n, b.file.Last, b.hash = b.n+1, a.Seq, a.Hash
	return true
}
