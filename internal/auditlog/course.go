package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// fileLine is a line and the file that it is in.
type fileLine struct {
	Line
	file string
}

// lines yields the lines of all files that match the database's history, ordered by number and each
// chained to the previous one. At the end it checks the abandoned files of earlier branches. at is
// the position of the export according to the database.
func lines(ctx context.Context, files Files, at contract.AuditExport, r *Report) iter.Seq2[fileLine, error] {
	return func(yield func(fileLine, error) bool) {
		all, err := All(ctx, files)
		if err != nil {
			yield(fileLine{}, err)
			return
		}
		end := endOf(all, at)
		current := currentFiles(all, end)
		abandoned, ends := abandonedFiles(all, end), map[File]string{}
		for _, b := range abandoned {
			ends[b.before] = ""
		}
		c := &fileChecker{r: r, ends: ends}
		err = c.files(ctx, files, current, func(p fileLine) bool { return yield(p, nil) })
		for i := 0; i < len(abandoned) && err == nil; i++ {
			b, lost := abandoned[i], &Report{}
			check := &fileChecker{r: lost, ends: ends, last: b.before.Last, hash: ends[b.before]}
			err = check.files(ctx, files, b.files, func(fileLine) bool { return true })
			r.Files += lost.Files
			r.Forks = append(r.Forks, Fork{After: b.before.Last, Last: lost.LastLine, Lines: lost.Lines})
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(fileLine{}, err)
		}
	}
}

// endOf returns the number of the entry at which the current files end: none, unless the database
// has begun a branch that has no file yet.
func endOf(all []File, at contract.AuditExport) int64 {
	if len(all) > 0 && at.Branch > all[len(all)-1].Branch {
		return at.Exported + 1
	}
	return math.MaxInt64
}

// currentFiles returns the files before until that match the database's history: of each branch those
// before the next branch begins. all must be sorted.
func currentFiles(all []File, until int64) (current []File) {
	for rest := all; len(rest) > 0; {
		begin := lastBranch(rest)
		branch := rest[begin:]
		current = append(before(branch, until), current...)
		until, rest = min(until, branch[0].First), rest[:begin]
	}
	return current
}

// abandonedBranch has the files of a branch after the position at which a later one begins.
type abandonedBranch struct {
	before File // the file before them; the zero value for none
	files  []File
}

// abandonedFiles returns the files that do not match the database's history, lowest branch first.
func abandonedFiles(all []File, until int64) (abandoned []abandonedBranch) {
	for rest := all; len(rest) > 0; {
		begin := lastBranch(rest)
		branch := rest[begin:]
		if kept := len(before(branch, until)); kept < len(branch) {
			b := abandonedBranch{files: branch[kept:]}
			own := currentFiles(rest, math.MaxInt64)
			if at := slices.Index(own, b.files[0]); at > 0 {
				b.before = own[at-1]
			}
			abandoned = append(abandoned, b)
		}
		until, rest = min(until, branch[0].First), rest[:begin]
	}
	slices.Reverse(abandoned)
	return abandoned
}

// lastBranch returns the index of the first file of the highest branch.
func lastBranch(all []File) int {
	return slices.IndexFunc(all, func(f File) bool { return f.Branch == all[len(all)-1].Branch })
}

// before returns a copy of the files of a branch that end before an entry's number.
func before(branch []File, seq int64) []File {
	n := slices.IndexFunc(branch, func(f File) bool { return f.Last >= seq })
	if n < 0 {
		n = len(branch)
	}
	return slices.Clone(branch[:n])
}

// elsewhere is another possible reason for a gap than removal.
const elsewhere = "; if each server writes to its own folder, pass all of them with --files"

var errStopped = errors.New("stopped")

// fileChecker follows the chain through the files.
type fileChecker struct {
	r    *Report
	f    File
	new  bool // no line of f has been read yet
	last int64
	hash string
	ends map[File]string // hashes of the last entries of the requested files
}

// files checks files, which must be sorted; each returns whether to continue.
func (c *fileChecker) files(ctx context.Context, from Files, all []File, each func(fileLine) bool) error {
	for _, f := range all {
		c.begin(f)
		err := Lines(ctx, from, f.Name(), func(l Line) error {
			if fault := c.line(l); fault != nil {
				return fault
			}
			if !each(fileLine{l, f.Name()}) {
				return errStopped
			}
			return nil
		})
		if err == nil {
			if fault := c.finish(); fault != nil {
				err = fault
			}
		}
		var fault *audit.Fault
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

func (c *fileChecker) line(l Line) *audit.Fault {
	fault := func(kind, detail string) *audit.Fault {
		return &audit.Fault{Seq: l.Entry.Seq, Kind: kind, Detail: detail}
	}
	starts := c.new && c.f.Start
	switch {
	case c.new && l.Entry.Seq != c.f.First:
		return fault(audit.Removed, fmt.Sprintf("the file should begin with entry %d", c.f.First))
	case l.Entry.Seq <= c.last:
		return fault(audit.Inserted, fmt.Sprintf("it comes after entry %d", c.last))
	case starts:
		c.r.Starts = append(c.r.Starts, l.Entry.Seq)
	case c.last == 0 && l.Prev != audit.NoHash:
		return fault(audit.Removed, "entries before it were in files that are missing"+elsewhere)
	case c.last > 0 && l.Prev != c.hash:
		return fault(audit.Removed, fmt.Sprintf("it does not follow entry %d, the previous one in the files: lines or files between them are missing", c.last)+elsewhere)
	}
	if c.r.Lines == 0 {
		c.r.FirstLine = l.Entry.Seq
	}
	c.r.Lines++
	c.new, c.last, c.hash = false, l.Entry.Seq, l.Entry.Hash
	c.r.LastLine = c.last
	return nil
}

func (c *fileChecker) finish() *audit.Fault {
	if c.new || c.last != c.f.Last {
		return &audit.Fault{Seq: c.f.Last, Kind: audit.Removed, Detail: fmt.Sprintf("the file should end with it, but ends with entry %d", c.last)}
	}
	if _, requested := c.ends[c.f]; requested {
		c.ends[c.f] = c.hash
	}
	return nil
}
