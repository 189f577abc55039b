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

	"github.com/bloom-runtime/bloom/internal/audit"
)

// Root is the folder, or the prefix of keys, of all files.
const Root = "audit"

// File is a file of the export: the lines of one day, UTC, from First to Last.
type File struct {
	Day         string // "2026/11/22"
	First, Last int64  // Seq
	// Start: entries between the previous file and this one were removed before they could be
	// exported. The files' chain restarts here.
	Start bool
	// Branch counts how often a backup was restored that is older than the files. A branch's files
	// continue where it began; later files of lower branches contain the lost entries.
	Branch int
}

// Name returns the file's path in the folder or bucket. It depends only on the content, so that
// writing the content again writes the same file.
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

// ParseName parses a result of Name; ok is false for other names.
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

// Day formats the day of a time in Unix milliseconds as in File.
func Day(at int64) string { return time.UnixMilli(at).UTC().Format("2006/01/02") }

// Files stores files. It is safe for concurrent use.
type Files interface {
	// Create writes a new file; ErrExists if it exists. When it returns nil, the file survives a
	// power failure.
	Create(ctx context.Context, name string, content []byte) error
	// Open streams a file. If it does not exist, the error wraps fs.ErrNotExist.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls fn with the names under Root, in any order. If the folder or bucket does not exist
	// yet, the error wraps fs.ErrNotExist.
	List(ctx context.Context, fn func(name string) error) error
	// String describes the location for users.
	String() string
}

// ErrExists is returned when a file exists.
var ErrExists = errors.New("the file already exists")

// Pack compresses the lines of a file. The result is always the same for the same lines.
func Pack(lines []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	_, _ = z.Write(lines)
	_ = z.Close()
	return b.Bytes()
}

// Put writes a file. If it already exists, because the process that wrote it died before it could
// record it, it must be the same.
func Put(ctx context.Context, files Files, f File, lines []byte) error {
	same, err := create(ctx, files, f.Name(), Pack(lines), lines)
	if err == nil && !same {
		return fmt.Errorf("%s in %s differs from the database: one of them was changed. bloom audit verify shows the entry; move the file elsewhere, and it will be written again", f.Name(), files)
	}
	return err
}

// ownerFile names the file with the id of the installation that the other files belong to.
const ownerFile = Root + "/installation"

// Claim makes an installation the owner of all files, or fails if another one is: the files of two
// would appear to replace each other.
func Claim(ctx context.Context, files Files, installation string) error {
	err := files.Create(ctx, ownerFile, []byte(installation))
	if !errors.Is(err, ErrExists) {
		return err
	}
	r, err := files.Open(ctx, ownerFile)
	if err != nil {
		return err
	}
	defer r.Close()
	owner, err := io.ReadAll(io.LimitReader(r, 64))
	if err == nil && string(owner) != installation {
		err = fmt.Errorf("%s has the audit of another installation (%s says %q, this one is %q); move those files away, or choose another folder or bucket with --audit-export", files, ownerFile, owner, installation)
	}
	return err
}

// create writes a compressed file, or reports whether the existing one has the same lines.
func create(ctx context.Context, files Files, name string, packed, lines []byte) (same bool, err error) {
	err = files.Create(ctx, name, packed)
	if !errors.Is(err, ErrExists) {
		return true, err
	}
	existing, err := readAll(ctx, files, name, len(lines))
	return bytes.Equal(existing, lines), err
}

// All lists the files sorted by branch and entries.
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

// readAll decompresses a file, at most one byte more than expected.
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

// maxLine bounds the memory for a line, in bytes: the longest possible entry is shorter.
const maxLine = 32 << 20

// Lines reads a file line by line. It returns a *audit.Fault if a line was changed.
func Lines(ctx context.Context, files Files, name string, fn func(Line) error) error {
	r, err := files.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return &audit.Fault{Kind: audit.Changed, Detail: "it is not a gzip file: " + err.Error()}
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
		return &audit.Fault{Kind: audit.Changed, Detail: "it cannot be read completely: " + err.Error()}
	}
	return nil
}
