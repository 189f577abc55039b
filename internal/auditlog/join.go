package auditlog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// joined is files that lie in several places.
type joined []Files

// Join is all files of several places, to read. Of files with the same name it reads the
// one of the first place that has it.
func Join(places ...Files) Files {
	if len(places) == 1 {
		return places[0]
	}
	return joined(places)
}

func (j joined) String() string {
	names := make([]string, 0, len(j))
	for _, one := range j {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}

// Create fails: nobody said where.
func (j joined) Create(context.Context, string, []byte) error {
	return errors.New("files in several places are only read")
}

// Open streams a file of the first place that has it.
func (j joined) Open(ctx context.Context, name string) (r io.ReadCloser, err error) {
	for _, one := range j {
		if r, err = one.Open(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return r, err
}

// List calls fn with the names of all files; one that lies in several places comes more
// than once.
func (j joined) List(ctx context.Context, fn func(string) error) error {
	for _, one := range j {
		if err := one.List(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}
