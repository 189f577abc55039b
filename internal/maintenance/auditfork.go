package maintenance

import (
	"context"
	"errors"
	"io/fs"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
)

// settle holds the files against the database once, before the first export: they are
// ahead of it when it was restored from a backup. Files with nothing but what the database
// holds count as exported. Where they hold more, the export begins a branch: files of its
// own, beside those of what was lost. It reports whether that is settled; entries that
// have yet to be chained cannot be compared.
func (e *auditExport) settle(ctx context.Context) (settled bool, err error) {
	// In this order: what another server writes meanwhile is exported or planned then.
	all, err := auditlog.All(ctx, e.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // there is nothing yet, not even the bucket
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
		is := bloom.AuditExport{Exported: f.Last, Hash: hash, Planned: 0, Branch: at.Branch}
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

// What the database holds of a file.
type held int

const (
	holdsAll held = iota
	holdsOther
	holdsUnchained
)

// holds compares the entries of a file with those of the database after a place.
func (e *auditExport) holds(ctx context.Context, f auditlog.File, after int64) (has held, hash string, err error) {
	var links []bloom.ChainLink
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

// fork begins a branch after what database and files have in common.
func (e *auditExport) fork(ctx context.Context, all []auditlog.File, at bloom.AuditExport) error {
	is := bloom.AuditExport{Exported: at.Exported, Hash: at.Hash, Planned: 0, Branch: at.Branch}
	for _, f := range all {
		if f.Branch > at.Branch {
			// It left the database's course where there is an export already, which is
			// written again: a branch replaces all that lies behind its beginning.
			is.Exported = min(is.Exported, f.First-1)
		}
		is.Branch = max(is.Branch, f.Branch)
	}
	if is.Exported != at.Exported {
		is.Hash, is.Exported = "", lastBefore(all, at.Branch, is.Exported)
	}
	is.Branch++
	e.Logger.WarnContext(ctx, "exported files of the audit hold entries that the database does not have: it was restored from a backup; new entries go to files of a new branch",
		"after", is.Exported, "branch", is.Branch)
	return e.Store.SetAuditExport(ctx, at, is)
}

// lastBefore is the last entry of the last file of up to a branch that ends no later than
// a place; 0: there is none.
func lastBefore(all []auditlog.File, branch int, place int64) (last int64) {
	for _, f := range all {
		if f.Branch <= branch && f.Last <= place {
			last = max(last, f.Last)
		}
	}
	return last
}
