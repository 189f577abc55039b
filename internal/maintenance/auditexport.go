package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/retry"
)

const (
	// DefaultExportEvery is how often a file of the audit is written, if there is
	// something to write.
	DefaultExportEvery = time.Minute
	// ExportBatch is how many entries fill a file, which is then written at once.
	ExportBatch = 10_000
	// exportBytes fill a file, too: it is put together in memory.
	exportBytes = 16 << 20
	exportPage  = 500
	// settleTries and settlePause are how long a run waits for entries to be chained that
	// have to be compared with the files.
	settleTries = 50
	settlePause = 100 * time.Millisecond
)

// AuditExportConfig is what AuditExport needs. Store and Files are required.
type AuditExportConfig struct {
	Store  bloom.AuditChainStore
	Files  auditlog.Files
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultExportEvery when 0
	// Wrote, when not nil, hears of every file, for metrics.
	Wrote func(entries int)
}

type auditExport struct {
	AuditExportConfig
	settled bool // files and database agree on how far it was exported; by the loop's turn
}

// NewAuditExport makes the loop that writes the audit to files: in order, complete, and
// each entry once. Which entries the next file holds is noted in the database before it
// is written, and that it was written after: who goes on after a crash writes the same
// file under the same name.
func NewAuditExport(c AuditExportConfig) *Loop {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	e := &auditExport{AuditExportConfig: c}
	return newLoop("audit-export", cmp.Or(c.Every, DefaultExportEvery), c.Logger, e.once)
}

// NewAuditExportFull makes the loop that looks whether a file is full and lets export
// write it then.
func NewAuditExportFull(store bloom.AuditChainStore, export *Loop, logger *slog.Logger) *Loop {
	return newLoop("audit-export-full", DefaultExportEvery/30, logger, func(ctx context.Context) (Result, error) {
		lag, err := store.AuditLag(ctx)
		if err == nil && lag.ToExport >= ExportBatch {
			export.Soon()
		}
		return Result{}, err
	})
}

// NewAuditMove makes the loop that moves files of the audit from where they were exported
// to before.
func NewAuditMove(move func(context.Context) (int, error), logger *slog.Logger) *Loop {
	return newLoop("audit-move", DefaultExportEvery, logger, func(ctx context.Context) (res Result, err error) {
		res.Changed, err = move(ctx)
		res.Detail = fmt.Sprintf("moved %d files of the audit to where it is exported now", res.Changed)
		return res, err
	})
}

func (e *auditExport) once(ctx context.Context) (res Result, err error) {
	for try := 0; !e.settled; try++ {
		if e.settled, err = e.settle(ctx); err != nil || !e.settled && try == settleTries {
			return res, err
		}
		if !e.settled { // what is not chained yet soon will be
			if err := retry.Sleep(ctx, settlePause); err != nil {
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
			res.Detail = fmt.Sprintf("exported %d entries of the audit in %d files", res.Changed, files)
			return res, err
		}
	}
}

// file writes the next file and returns how many entries it has; 0: there are none.
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
	if err := e.Store.SetAuditExport(ctx, at, bloom.AuditExport{Exported: b.file.Last, Hash: b.hash, Planned: 0, Branch: at.Branch}); err != nil {
		return 0, err
	}
	if e.Wrote != nil {
		e.Wrote(b.n)
	}
	return b.n, nil
}

// batch is what one file holds.
type batch struct {
	file  auditlog.File
	lines []byte
	n     int
	hash  string // of the last
}

// collect reads what the next file holds: what was planned, or else the chained entries
// of one day that come next.
func (e *auditExport) collect(ctx context.Context, at bloom.AuditExport) (b batch, err error) {
	after, before := at.Exported, bloom.ChainLink{}
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

// add appends an entry; false when it belongs in the next file.
func (b *batch) add(a bloom.Audit, before bloom.ChainLink, at bloom.AuditExport) bool {
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
