package auditlog

import (
	"context"
	"fmt"
	"iter"

	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Report is the result of a verification.
type Report struct {
	Entries   int64  `json:"entries"`   // in the database, chained and unchanged
	First     int64  `json:"first"`     // Seq of the first of them
	Last      int64  `json:"last"`      // Seq of the last of them
	Hash      string `json:"hash"`      // of the last; recorded elsewhere, it proves later that nothing before it was changed
	Unchained int64  `json:"unchained"` // waiting to be chained

	Files     int64 `json:"files"`
	Lines     int64 `json:"lines"`
	FirstLine int64 `json:"first_line"` // Seq
	LastLine  int64 `json:"last_line"`  // Seq
	// Starts are the entries at which the files restart, because entries before them were removed
	// before they could be exported.
	Starts []int64 `json:"starts,omitempty"`
	// Forks are the points at which a backup was restored and files diverge.
	Forks []Fork `json:"forks,omitempty"`
}

// Fork describes exported entries that were lost when a backup was restored.
type Fork struct {
	After int64 `json:"after"` // Seq of the last entry before them
	Last  int64 `json:"last"`  // Seq
	Lines int64 `json:"lines"`
}

// Verify checks a chain, or files, or both and that they agree; either may be nil. A
// *audit.Fault describes the first wrong entry; any other error means that something could not
// be read.
func Verify(ctx context.Context, chain audit.Reader, files Files) (r Report, err error) {
	if files == nil {
		return r, verifyChain(ctx, &r, chain, nil)
	}
	at, err := exportOf(ctx, chain)
	if err != nil {
		return r, err
	}
	for {
		r, err = verifyAt(ctx, chain, files, at)
		if err == nil {
			return r, nil
		}
		// A server may have recorded a restored backup meanwhile.
		now, failed := exportOf(ctx, chain)
		if failed != nil || now.Branch == at.Branch {
			return r, err
		}
		at = now
	}
}

// verifyAt checks files, and a chain unless it is nil, given the position of its export.
func verifyAt(ctx context.Context, chain audit.Reader, files Files, at contract.AuditExport) (r Report, err error) {
	next, stop := iter.Pull2(lines(ctx, files, at, &r))
	defer stop()
	pair := &merge{next: next, at: fileLine{}, loaded: false, done: false}
	if chain == nil {
		return r, pair.rest()
	}
	if err := verifyChain(ctx, &r, chain, pair.link); err != nil {
		return r, err
	}
	if err := pair.end(); err != nil {
		return r, err
	}
	if r.LastLine < at.Exported {
		return r, &audit.Fault{Seq: at.Exported, Kind: audit.Removed, Detail: fmt.Sprintf("it was exported, but the files end with entry %d", r.LastLine) + elsewhere}
	}
	return r, nil
}

// exportOf returns the position of a chain's export, which must be read before the files. It is zero
// if nothing was exported or the chain does not support it.
func exportOf(ctx context.Context, chain audit.Reader) (contract.AuditExport, error) {
	if c, ok := chain.(interface {
		AuditExport(ctx context.Context) (contract.AuditExport, error)
	}); ok {
		return c.AuditExport(ctx)
	}
	return contract.AuditExport{}, nil
}

func verifyChain(ctx context.Context, r *Report, chain audit.Reader, each func(audit.Link) error) error {
	v, err := audit.Verify(ctx, chain, each)
	r.Entries, r.First, r.Unchained = v.Entries, v.First, v.Unchained
	r.Last, r.Hash = v.Last().Seq, v.Last().Hash
	return err
}

// merge iterates over database and files in parallel.
type merge struct {
	next   func() (fileLine, error, bool)
	at     fileLine
	loaded bool // at is the next line
	done   bool // there are no more lines
}

// load reads the next line into at, unless done.
func (p *merge) load() error {
	if p.loaded || p.done {
		return nil
	}
	at, err, ok := p.next()
	p.at, p.loaded, p.done = at, ok && err == nil, !ok
	return err
}

// link compares a link of the database's chain with the lines up to it. Newer entries, and those
// older than the first export, need not be in a file.
func (p *merge) link(l audit.Link) error {
	for {
		if err := p.load(); err != nil || p.done || p.at.Entry.Seq > l.Seq {
			return err
		}
		p.loaded = false
		switch {
		case p.at.Entry.Seq < l.Seq && l.Entry != nil: // otherwise retention removed it
			return p.differs("it is in the files, but not in the database" + restored)
		case p.at.Entry.Seq == l.Seq && p.at.Entry.Hash != l.Hash:
			return p.differs("the entry in the files differs from the one in the database" + restored)
		}
	}
}

// restored is another possible reason for a difference than tampering.
const restored = "; if a backup was restored, start the server, which records it, and verify again"

func (p *merge) differs(detail string) error {
	return &audit.Fault{Seq: p.at.Entry.Seq, Kind: audit.Differs, Detail: detail, File: p.at.file}
}

// rest reads the remaining lines.
func (p *merge) rest() error {
	for {
		if err := p.load(); err != nil || p.done {
			return err
		}
		p.loaded = false
	}
}

// end detects lines that the database has lost: every exported entry was in the chain.
func (p *merge) end() error {
	if err := p.load(); err != nil || p.done {
		return err
	}
	return p.differs("it is in the files, but the database's chain ends before it" + restored)
}
