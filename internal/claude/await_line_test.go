package claude_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/claude"
)

// The test measures the memory of the whole process, so it is not parallel.
func TestAFileIsReadAgainOnlyWhenItHasGrown(t *testing.T) { //nolint:paralleltest // see above
	path := filepath.Join(t.TempDir(), "session.jsonl")
	if err := os.WriteFile(path, append(bytes.Repeat([]byte("x"), 4<<20), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	claude.AwaitLine(ctx, path, "message-id")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d MiB were read while the file did not change", used>>20)
	}
	if ctx.Err() == nil {
		t.Error("it did not wait")
	}
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("message-id\n")
			_ = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	claude.AwaitLine(t.Context(), path, "message-id")
	if took := time.Since(began); took > time.Second {
		t.Errorf("the line was found after %s", took)
	}
}
