package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

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
}

// Verify checks a chain, or files, or both and that they agree; either may be nil. A
// *bloom.ChainFault names the first entry that is wrong; any other error means that
// something could not be read.
func Verify(ctx context.Context, chain bloom.ChainReader, files Files) (Report, error) {
	var r Report
	if files == nil {
		return r, verifyChain(ctx, &r, chain, nil)
	}
	next, stop := iter.Pull2(lines(ctx, files, &r))
	defer stop()
	pair := &pairing{next: next, at: place{}, have: false, over: false}
	if chain == nil {
		return r, pair.rest()
	}
	if err := verifyChain(ctx, &r, chain, pair.link); err != nil {
		return r, err
	}
	return r, pair.end()
}

func verifyChain(ctx context.Context, r *Report, chain bloom.ChainReader, each func(bloom.ChainLink) error) error {
	v, err := bloom.VerifyChain(ctx, chain, each)
	r.Entries, r.First, r.Unchained = v.Entries, v.First, v.Unchained
	r.Last, r.Hash = v.Last().Seq, v.Last().Hash
	return err
}

// place is a line and the file that it is in.
type place struct {
	Line
	file string
}

// lines yields the lines of all files in the order of their numbers, each chained to
// the one before.
func lines(ctx context.Context, files Files, r *Report) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		var all []File
		if err := files.List(ctx, func(name string) error {
			if f, ok := ParseName(name); ok {
				all = append(all, f)
			}
			return nil
		}); err != nil {
			yield(place{}, err)
			return
		}
		slices.SortFunc(all, func(a, b File) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
		c := &fileChecker{r: r}
		for _, f := range all {
			c.begin(f)
			err := eachLine(ctx, files, f.Name(), func(l Line) error {
				if fault := c.line(l); fault != nil {
					return fault
				}
				if !yield(place{l, f.Name()}, nil) {
					return errStopped
				}
				return nil
			})
			if err == nil {
				if fault := c.finish(); fault != nil {
					err = fault
				}
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				var fault *bloom.ChainFault
				if errors.As(err, &fault) {
					fault.File, fault.Seq = f.Name(), cmp.Or(fault.Seq, c.last+1, f.First)
				} else {
					err = fmt.Errorf("%s in %s: %w", f.Name(), files, err)
				}
				yield(place{}, err)
				return
			}
		}
	}
}

var errStopped = errors.New("stopped")

// fileChecker follows the chain through the files.
type fileChecker struct {
	r    *Report
	f    File
	new  bool // no line of f was read yet
	last int64
	hash string
}

func (c *fileChecker) begin(f File) {
	c.f, c.new = f, true
	c.r.Files++
}

func (c *fileChecker) line(l Line) *bloom.ChainFault {
	fault := func(kind, detail string) *bloom.ChainFault {
		return &bloom.ChainFault{Seq: l.Entry.Seq, Kind: kind, Detail: detail}
	}
	starts := c.new && c.f.Start
	switch {
	case c.new && l.Entry.Seq != c.f.First:
		return fault(bloom.ChainRemoved, fmt.Sprintf("the file should begin with entry %d", c.f.First))
	case l.Entry.Seq <= c.last:
		return fault(bloom.ChainInserted, fmt.Sprintf("it stands behind entry %d", c.last))
	case starts:
		c.r.Starts = append(c.r.Starts, l.Entry.Seq)
	case c.last == 0 && l.Prev != bloom.NoHash:
		return fault(bloom.ChainRemoved, "entries before it were in files that are not there")
	case c.last > 0 && l.Prev != c.hash:
		return fault(bloom.ChainRemoved, fmt.Sprintf("it does not follow entry %d, the one before it in the files: lines or files between them are not there", c.last))
	}
	if c.r.Lines == 0 {
		c.r.FirstLine = l.Entry.Seq
	}
	c.r.Lines++
	c.new, c.last, c.hash = false, l.Entry.Seq, l.Entry.Hash
	c.r.LastLine = c.last
	return nil
}

func (c *fileChecker) finish() *bloom.ChainFault {
	if c.new || c.last != c.f.Last {
		return &bloom.ChainFault{Seq: c.f.Last, Kind: bloom.ChainRemoved, Detail: fmt.Sprintf("the file should end with it, but ends with entry %d", c.last)}
	}
	return nil
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
			return p.differs("it is in the files, but not in the database")
		case p.at.Entry.Seq == l.Seq && p.at.Entry.Hash != l.Hash:
			return p.differs("it is another one in the files than in the database")
		}
	}
}

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
	return p.differs("it is in the files, but the chain in the database ends before it")
}
