package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

func TestRemovingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "in")
	for i := range 1000 {
		write(t, dir, fmt.Sprintf("%d/x", i%10*1000+i), "", 0o600)
	}
	ctx := &fuse{Context: t.Context(), left: 100}
	if err := workspace.Remove(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	left := len(tree(t, dir))
	if left == 0 || left >= 2000 {
		t.Errorf("%d entries are left", left)
	}
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}

// fuse is a context that ends after a number of calls.
type fuse struct {
	context.Context
	left int
}

func (f *fuse) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestDeepFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	nested(t, dir, 1500)
	write(t, dir, ".removing-1/x", "", 0o600) // a name that Remove would use
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
