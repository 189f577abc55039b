package claude_test

import (
	"os"
	"testing"
	"time"
)

// eventually looks until the condition holds. It is for other processes, which
// give no signal; the bound is far beyond what it takes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("it did not come about: %s", what)
		case <-tick.C:
		}
	}
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, path, func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	})
}
