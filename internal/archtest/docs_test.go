package archtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tables of docs/http-api.md have every code of an error and every type of the server's events.
func TestTheAPIsTablesAreComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`bloom\.Error\{[^{}]*?Code:\s*"([a-z_]+)"|\b(?:Code|Event)[A-Z]\w*\s*=\s*"([a-z_]+)"`)
	found := 0
	for _, dir := range []string{"../..", "../auth", "../content", "../dispatch", "../httpapi", "../search", "../transcripts", "../membridge"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && dir == "../.." && path != dir:
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			for _, match := range names.FindAllStringSubmatch(string(text), -1) {
				name := strings.Join(match[1:], "")
				if found++; name != "usage" && !strings.Contains(string(page), "`"+name+"`") { // usage is a worker's event
					t.Errorf("docs/http-api.md has no `%s` of %s", name, path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 40 {
		t.Errorf("only %d names were found: nothing was checked", found)
	}
}
