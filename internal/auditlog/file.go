package auditlog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
)

// Root is the folder, or the prefix of keys, that all files lie under.
const Root = "audit"

// File is a file of the export: the lines of one day, UTC, from First to Last.
type File struct {
	Day         string // "2026/11/22"
	First, Last int64  // Seq
	// Start: entries between it and the file before were removed before they could be
	// exported. The chain of the files starts anew.
	Start bool
	// Branch counts how often the database was older than the files, because a backup
	// was restored. The files of a branch go on where it began; those of lower branches
	// that lie behind are of what was lost.
	Branch int
}

// Name is the file's path under the folder or bucket. Only what is in it decides on it,
// so that who writes it again writes the same file.
func (f File) Name() string {
	marks := ""
	if f.Start {
		marks = "-start"
	}
	if f.Branch > 0 {
		marks += "-restored" + strconv.Itoa(f.Branch)
	}
	return fmt.Sprintf("%s/%s/%020d-%020d%s.jsonl.gz", Root, f.Day, f.First, f.Last, marks)
}

var fileName = regexp.MustCompile(`^audit/(\d{4}/\d{2}/\d{2})/(\d{20})-(\d{20})(-start)?(?:-restored(\d{1,9}))?\.jsonl\.gz$`)

// ParseName reads what Name wrote; ok is false for other files.
func ParseName(name string) (f File, ok bool) {
	m := fileName.FindStringSubmatch(name)
	if m == nil {
		return f, false
	}
	f.Day, f.Start = m[1], m[4] != ""
	f.First, _ = strconv.ParseInt(m[2], 10, 64)
	f.Last, _ = strconv.ParseInt(m[3], 10, 64)
	f.Branch, _ = strconv.Atoi(m[5])
	return f, f.First <= f.Last && f.Name() == name
}

// Day is the day of a time in Unix milliseconds as File has it.
func Day(at int64) string { return time.UnixMilli(at).UTC().Format("2006/01/02") }

// Files is where files are kept. Safe for concurrent use.
type Files interface {
	// Create writes a file that is not there; ErrExists when it is. When it returns nil
	// the file survives a power failure.
	Create(ctx context.Context, name string, content []byte) error
	// Open streams a file; an error that wraps fs.ErrNotExist when there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls fn with the names under Root, in any order; an error that wraps
	// fs.ErrNotExist when there is no place for them yet.
	List(ctx context.Context, fn func(name string) error) error
	// String says where they are, for people.
	String() string
}

// ErrExists says that there is a file of that name.
var ErrExists = errors.New("there is a file of that name")

// Pack is the content of a file with these lines, always the same for the same lines.
func Pack(lines []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	_, _ = z.Write(lines)
	_ = z.Close()
	return b.Bytes()
}

// Put writes a file. One that is there already, because the process that wrote it died
// before it could say so, must be the same.
func Put(ctx context.Context, files Files, f File, lines []byte) error {
	same, err := create(ctx, files, f.Name(), Pack(lines), lines)
	if err == nil && !same {
		return fmt.Errorf("%s in %s differs from the database: one of them was changed; bloom audit verify tells which entry, move the file away to have it written again", f.Name(), files)
	}
	return err
}

// create writes a packed file that is not there, or reports whether the one that is
// there has the same lines.
func create(ctx context.Context, files Files, name string, packed, lines []byte) (same bool, err error) {
	err = files.Create(ctx, name, packed)
	if !errors.Is(err, ErrExists) {
		return true, err
	}
	there, err := readAll(ctx, files, name, len(lines))
	return bytes.Equal(there, lines), err
}

// All lists the files in the order of branches and entries.
func All(ctx context.Context, files Files) (all []File, err error) {
	err = files.List(ctx, func(name string) error {
		if f, ok := ParseName(name); ok {
			all = append(all, f)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Branch, b.Branch), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Name(), b.Name()))
	})
	return slices.Compact(all), err
}

// readAll unpacks a file; one that is much longer than expected is not read to its end.
func readAll(ctx context.Context, files Files, name string, expected int) ([]byte, error) {
	r, err := files.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, files, err)
	}
	return io.ReadAll(io.LimitReader(z, int64(expected)+1))
}

// maxLine bounds what is held in memory of a file, in bytes: an entry's data, detail
// and names at their longest take less.
const maxLine = 32 << 20

// Lines reads a file line by line: a *bloom.ChainFault when one is not as it was written.
func Lines(ctx context.Context, files Files, name string, fn func(Line) error) error {
	r, err := files.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return &bloom.ChainFault{Kind: bloom.ChainChanged, Detail: "it is no gzip file: " + err.Error()}
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		l, err := ParseLine(lines.Bytes())
		if err == nil {
			err = fn(l)
		}
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &bloom.ChainFault{Kind: bloom.ChainChanged, Detail: "it cannot be read to its end: " + err.Error()}
	}
	return nil
}
