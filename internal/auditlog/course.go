package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// place is a line and the file that it is in.
type place struct {
	Line
	file string
}

// lines yields the lines of all files in the order of their numbers, each chained to
// the one before. At the end it checks the files of branches that were left. at is how far
// the database says that it was exported.
func lines(ctx context.Context, files Files, at bloom.AuditExport, r *Report) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		all, err := All(ctx, files)
		if err != nil {
			yield(place{}, err)
			return
		}
		end := endOf(all, at)
		course := courseOf(all, end)
		left, ends := leftOf(all, end), map[File]string{}
		for _, b := range left {
			ends[b.before] = ""
		}
		c := &fileChecker{r: r, ends: ends}
		err = c.files(ctx, files, course, func(p place) bool { return yield(p, nil) })
		for i := 0; i < len(left) && err == nil; i++ {
			b, lost := left[i], &Report{}
			check := &fileChecker{r: lost, ends: ends, last: b.before.Last, hash: ends[b.before]}
			err = check.files(ctx, files, b.files, func(place) bool { return true })
			r.Files += lost.Files
			r.Forks = append(r.Forks, Fork{After: b.before.Last, Last: lost.LastLine, Lines: lost.Lines})
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(place{}, err)
		}
	}
}

// endOf is where the course that the files took ends: nowhere, unless the database has begun
// a branch that has no file yet.
func endOf(all []File, at bloom.AuditExport) int64 {
	if len(all) > 0 && at.Branch > all[len(all)-1].Branch {
		return at.Exported + 1
	}
	return math.MaxInt64
}

// courseOf is the files before until of the course that the database took: of each branch
// those before the next one begins. all are in order.
func courseOf(all []File, until int64) (course []File) {
	for rest := all; len(rest) > 0; {
		begin := beginOfLast(rest)
		branch := rest[begin:]
		course = append(before(branch, until), course...)
		until, rest = min(until, branch[0].First), rest[:begin]
	}
	return course
}

// leftBranch is the files of a branch behind the place where a later one begins.
type leftBranch struct {
	before File // the one before them; the zero value for none
	files  []File
}

// leftOf is the files that are not of the course, the lowest branch first.
func leftOf(all []File, until int64) (left []leftBranch) {
	for rest := all; len(rest) > 0; {
		begin := beginOfLast(rest)
		branch := rest[begin:]
		if kept := len(before(branch, until)); kept < len(branch) {
			b := leftBranch{files: branch[kept:]}
			own := courseOf(rest, math.MaxInt64)
			if at := slices.Index(own, b.files[0]); at > 0 {
				b.before = own[at-1]
			}
			left = append(left, b)
		}
		until, rest = min(until, branch[0].First), rest[:begin]
	}
	slices.Reverse(left)
	return left
}

// beginOfLast is where the files of the highest branch begin.
func beginOfLast(all []File) int {
	return slices.IndexFunc(all, func(f File) bool { return f.Branch == all[len(all)-1].Branch })
}

// before is a copy of the first files of a branch, those that end before a place.
func before(branch []File, place int64) []File {
	n := slices.IndexFunc(branch, func(f File) bool { return f.Last >= place })
	if n < 0 {
		n = len(branch)
	}
	return slices.Clone(branch[:n])
}

// elsewhere is what else than removal may be behind a gap.
const elsewhere = "; where each server writes to a folder of its own, give all of them with --files"

var errStopped = errors.New("stopped")

// fileChecker follows the chain through the files.
type fileChecker struct {
	r    *Report
	f    File
	new  bool // no line of f was read yet
	last int64
	hash string
	ends map[File]string // hashes of the last entries of files that are asked for
}

// files checks files, which are in order; each returns whether to go on.
func (c *fileChecker) files(ctx context.Context, from Files, all []File, each func(place) bool) error {
	for _, f := range all {
		c.begin(f)
		err := Lines(ctx, from, f.Name(), func(l Line) error {
			if fault := c.line(l); fault != nil {
				return fault
			}
			if !each(place{l, f.Name()}) {
				return errStopped
			}
			return nil
		})
		if err == nil {
			if fault := c.finish(); fault != nil {
				err = fault
			}
		}
		var fault *bloom.ChainFault
		switch {
		case errors.As(err, &fault):
			fault.File, fault.Seq = f.Name(), cmp.Or(fault.Seq, c.last+1, f.First)
			return err
		case err != nil && !errors.Is(err, errStopped):
			return fmt.Errorf("%s in %s: %w", f.Name(), from, err)
		case err != nil:
			return err
		}
	}
	return nil
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
		return fault(bloom.ChainRemoved, "entries before it were in files that are not there"+elsewhere)
	case c.last > 0 && l.Prev != c.hash:
		return fault(bloom.ChainRemoved, fmt.Sprintf("it does not follow entry %d, the one before it in the files: lines or files between them are not there", c.last)+elsewhere)
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
	if _, asked := c.ends[c.f]; asked {
		c.ends[c.f] = c.hash
	}
	return nil
}
