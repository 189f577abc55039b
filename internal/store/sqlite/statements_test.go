package sqlite_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// SQLite recompiles a statement for every value that is bound to a bare LIMIT ?, which costs more
// than running it. With +? it ignores the value.
func TestNoStatementIsRecompiledForItsLimit(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`(?:LIMIT|OFFSET) \?`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if f == "statements_test.go" {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if at := bare.FindIndex(text); at != nil {
			t.Errorf("%s: %q", f, text[max(0, at[0]-60):at[1]])
		}
	}
}
