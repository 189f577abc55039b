package maintenance

import (
	"context"
	"errors"
	"io/fs"

	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// reconcile compares the files with the database, once before the first export. If the
// database was restored from a backup, the files are ahead of it: files whose entries the
// database has count as exported; if they have others, the export begins a new branch of
// files. It returns false if it must be repeated, because entries that are not chained yet
// cannot be compared.
func (e *auditExport) reconcile(ctx context.Context) (reconciled bool, err error) {
	// List the files first: what another server writes later is then exported or planned.
	all, err := auditlog.All(ctx, e.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // the bucket does not exist yet
	}
	if err != nil {
		return false, err
	}
	at, err := e.Store.AuditExport(ctx)
	if err != nil {
		return false, err
	}
	for _, f := range all {
		if f.Branch != at.Branch || f.Last <= at.Exported {
			continue
		}
		has, hash, err := e.holds(ctx, f, at.Exported)
		switch {
		case err != nil || has == holdsUnchained:
			return false, err
		case has == holdsOther:
			return true, e.fork(ctx, all, at)
		}
		is := contract.AuditExport{Exported: f.Last, Hash: hash, Planned: 0, Branch: at.Branch}
		if err := e.Store.SetAuditExport(ctx, at, is); err != nil {
			return false, err
		}
		at = is
	}
	if len(all) > 0 && all[len(all)-1].Branch > at.Branch {
		return true, e.fork(ctx, all, at)
	}
	return true, nil
}

// held is which of a file's entries the database has.
type held int

const (
	holdsAll held = iota
	holdsOther
	holdsUnchained
)

// holds compares a file's entries with the database's entries that follow after.
func (e *auditExport) holds(ctx context.Context, f auditlog.File, after int64) (has held, hash string, err error) {
	var links []audit.Link
	err = auditlog.Lines(ctx, e.Files, f.Name(), func(l auditlog.Line) error {
		if len(links) == 0 {
			var err error
			if _, _, links, err = e.Store.AuditLinks(ctx, after, exportPage); err != nil {
				return err
			}
		}
		switch {
		case len(links) > 0 && links[0].Seq == l.Entry.Seq && links[0].Hash == "":
			has = holdsUnchained
			return errCompared
		case len(links) == 0 || links[0].Seq != l.Entry.Seq || links[0].Hash != l.Entry.Hash:
			has = holdsOther
			return errCompared
		}
		after, hash, links = l.Entry.Seq, l.Entry.Hash, links[1:]
		return nil
	})
	if errors.Is(err, errCompared) {
		err = nil
	}
	return has, hash, err
}

var errCompared = errors.New("compared")

// fork begins a branch after the last entry that the database and the files have in common.
func (e *auditExport) fork(ctx context.Context, all []auditlog.File, at contract.AuditExport) error {
	is := contract.AuditExport{Exported: at.Exported, Hash: at.Hash, Planned: 0, Branch: at.Branch}
	for _, f := range all {
		if f.Branch > at.Branch {
			// The file is on a later branch, which replaces everything after its first
			// entry. Export those entries again.
			is.Exported = min(is.Exported, f.First-1)
		}
		is.Branch = max(is.Branch, f.Branch)
	}
	if is.Exported != at.Exported {
		is.Hash, is.Exported = "", lastBefore(all, at.Branch, is.Exported)
	}
	is.Branch++
	e.Logger.WarnContext(ctx, "exported audit files have entries that the database does not have, because it was restored from a backup; new entries go to files of a new branch",
		"after", is.Exported, "branch", is.Branch)
	return e.Store.SetAuditExport(ctx, at, is)
}

// lastBefore returns the last entry of the files up to a branch that end no later than place,
// 0 if there is none.
func lastBefore(all []auditlog.File, branch int, place int64) (last int64) {
	for _, f := range all {
		if f.Branch <= branch && f.Last <= place {
			last = max(last, f.Last)
		}
	}
	return last
}
