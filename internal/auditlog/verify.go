package auditlog

import (
	"context"
	"fmt"
	"iter"

	"github.com/bloom-runtime/bloom"
)

// Report is what was verified.
type Report struct {
	Entries   int64  `json:"entries"`   // in the database, chained and as they were
	First     int64  `json:"first"`     // Seq of the first of them
	Last      int64  `json:"last"`      // Seq of the last of them
	Hash      string `json:"hash"`      // of the last; whoever writes it down can tell later that nothing before it was changed
	Unchained int64  `json:"unchained"` // waiting to be chained

	Files     int64 `json:"files"`
	Lines     int64 `json:"lines"`
	FirstLine int64 `json:"first_line"` // Seq
	LastLine  int64 `json:"last_line"`  // Seq
	// Starts are first entries of files before which entries were removed before they
	// could be exported.
	Starts []int64 `json:"starts,omitempty"`
	// Forks are where files from before a backup was restored go another way.
	Forks []Fork `json:"forks,omitempty"`
}

// Fork is what the files hold of entries that were lost when a backup was restored.
type Fork struct {
	After int64 `json:"after"` // Seq of the last entry before them
	Last  int64 `json:"last"`  // Seq
	Lines int64 `json:"lines"`
}

// Verify checks a chain, or files, or both and that they agree; either may be nil. A
// *bloom.ChainFault names the first entry that is wrong; any other error means that
// something could not be read.
func Verify(ctx context.Context, chain bloom.ChainReader, files Files) (r Report, err error) {
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
		// A server may have noted meanwhile that a backup was restored.
		now, failed := exportOf(ctx, chain)
		if failed != nil || now.Branch == at.Branch {
			return r, err
		}
		at = now
	}
}

// verifyAt checks files, and a chain unless nil, that was exported that far.
func verifyAt(ctx context.Context, chain bloom.ChainReader, files Files, at bloom.AuditExport) (r Report, err error) {
	next, stop := iter.Pull2(lines(ctx, files, at, &r))
	defer stop()
	pair := &pairing{next: next, at: place{}, have: false, over: false}
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
		return r, &bloom.ChainFault{Seq: at.Exported, Kind: bloom.ChainRemoved, Detail: fmt.Sprintf("it was exported, but the files end with entry %d", r.LastLine) + elsewhere}
	}
	return r, nil
}

// exportOf is how far a chain that knows was exported; read before the files are. The
// zero value: not at all, or it does not know.
func exportOf(ctx context.Context, chain bloom.ChainReader) (bloom.AuditExport, error) {
	if c, knows := chain.(interface {
		AuditExport(ctx context.Context) (bloom.AuditExport, error)
	}); knows {
		return c.AuditExport(ctx)
	}
	return bloom.AuditExport{}, nil
}

func verifyChain(ctx context.Context, r *Report, chain bloom.ChainReader, each func(bloom.ChainLink) error) error {
	v, err := bloom.VerifyChain(ctx, chain, each)
	r.Entries, r.First, r.Unchained = v.Entries, v.First, v.Unchained
	r.Last, r.Hash = v.Last().Seq, v.Last().Hash
	return err
}

// pairing walks through database and files side by side.
type pairing struct {
	next func() (place, error, bool)
	at   place
	have bool // at is the next line
	over bool // there are no more lines
}

// look has the next line in at, unless over.
func (p *pairing) look() error {
	if p.have || p.over {
		return nil
	}
	at, err, ok := p.next()
	p.at, p.have, p.over = at, ok && err == nil, !ok
	return err
}

// link holds a place of the database's chain against the lines up to it. Entries may be
// in no file: those that are younger, and those from before there were files.
func (p *pairing) link(l bloom.ChainLink) error {
	for {
		if err := p.look(); err != nil || p.over || p.at.Entry.Seq > l.Seq {
			return err
		}
		p.have = false
		switch {
		case p.at.Entry.Seq < l.Seq && l.Entry != nil: // else retention has removed it
			return p.differs("it is in the files, but not in the database" + restored)
		case p.at.Entry.Seq == l.Seq && p.at.Entry.Hash != l.Hash:
			return p.differs("it is another one in the files than in the database" + restored)
		}
	}
}

// restored is what else than tampering may be behind a difference.
const restored = "; if a backup was restored, start the server, which notes that, and verify again"

func (p *pairing) differs(detail string) error {
	return &bloom.ChainFault{Seq: p.at.Entry.Seq, Kind: bloom.ChainDiffers, Detail: detail, File: p.at.file}
}

// rest reads the lines that are left.
func (p *pairing) rest() error {
	for {
		if err := p.look(); err != nil || p.over {
			return err
		}
		p.have = false
	}
}

// end finds lines that the database has lost: nothing is in a file that was not in the
// chain before.
func (p *pairing) end() error {
	if err := p.look(); err != nil || p.over {
		return err
	}
	return p.differs("it is in the files, but the chain in the database ends before it" + restored)
}
