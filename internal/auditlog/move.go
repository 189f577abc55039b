package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
)

// maxFile bounds the memory for a file that is moved, decompressed, in bytes: exported files are
// smaller.
const maxFile = 128 << 20

// Move moves the files of a folder to the current destination of the export, oldest first, and
// returns their number. It removes a file after copying it; a file that already exists at the
// destination must be the same. It can be repeated at any time.
func Move(ctx context.Context, from *Folder, to Files) (moved int, err error) {
	if other, ok := to.(*Folder); ok && from.same(other) {
		return 0, nil
	}
	all, err := All(ctx, from)
	if err != nil {
		return 0, err
	}
	for _, f := range all {
		packed, lines, err := from.read(f.Name())
		if err != nil {
			return moved, err
		}
		same, err := create(ctx, to, f.Name(), packed, lines)
		switch {
		case err != nil:
			return moved, err
		case !same:
			return moved, fmt.Errorf("%s differs in %s and in %s: one of them was changed", f.Name(), from, to)
		}
		if err := from.remove(f.Name()); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, nil
}

// same reports whether two folders are the same.
func (f *Folder) same(other *Folder) bool {
	one, err := os.Stat(filepath.Join(f.dir, Root))
	two, err2 := os.Stat(filepath.Join(other.dir, Root))
	return err == nil && err2 == nil && os.SameFile(one, two)
}

// read returns a file's compressed content and its lines.
func (f *Folder) read(name string) (packed, lines []byte, err error) {
	r, err := f.Open(context.Background(), name)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if packed, err = io.ReadAll(io.LimitReader(r, maxFile)); err != nil {
		return nil, nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		lines, err = io.ReadAll(io.LimitReader(z, maxFile))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s in %s: %w", name, f, err)
	}
	return packed, lines, nil
}
