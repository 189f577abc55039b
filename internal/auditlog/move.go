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

// maxFile bounds what is held in memory of a file that is moved, unpacked, in bytes: the
// export fills less.
const maxFile = 128 << 20

// Move takes the files of a folder to where the audit is exported now, oldest first, and
// returns how many it has moved. A file is removed once it is there; one that is there
// already must be the same. It can be repeated at any time.
func Move(ctx context.Context, from *Folder, to Files) (moved int, err error) {
	if other, ok := to.(*Folder); ok && from.is(other) {
		return 0, nil
	}
	all, err := All(ctx, from)
	if err != nil {
		return 0, err
	}
	for _, f := range all {
		packed, lines, err := from.whole(f.Name())
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

// is reports whether two folders are the same.
func (f *Folder) is(other *Folder) bool {
	one, err := os.Stat(filepath.Join(f.dir, Root))
	two, err2 := os.Stat(filepath.Join(other.dir, Root))
	return err == nil && err2 == nil && os.SameFile(one, two)
}

// whole is a file as it lies there, and its lines.
func (f *Folder) whole(name string) (packed, lines []byte, err error) {
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
