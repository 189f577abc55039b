package auditlog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// joined reads files from several locations.
type joined []Files

// Join returns the files of several locations for reading. If several have a file of the same name,
// it reads the first.
func Join(locations ...Files) Files {
	if len(locations) == 1 {
		return locations[0]
	}
	return joined(locations)
}

func (j joined) String() string {
	names := make([]string, 0, len(j))
	for _, one := range j {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}

// Create fails, because the location is ambiguous.
func (j joined) Create(context.Context, string, []byte) error {
	return errors.New("cannot write a file to several locations")
}

// Open streams a file from the first location that has it.
func (j joined) Open(ctx context.Context, name string) (r io.ReadCloser, err error) {
	for _, one := range j {
		if r, err = one.Open(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return r, err
}

// List calls fn with the names of all files; a file in several locations is listed several times.
func (j joined) List(ctx context.Context, fn func(string) error) error {
	for _, one := range j {
		if err := one.List(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}
