package archtest_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code     = regexp.MustCompile("`[^`\n]+`")
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	mdLink   = regexp.MustCompile(`(?:\]\(|(?:href|src|srcset)=")([^)"\s]+)`)
	pageName = regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.md\b(#[a-z0-9-]+)?`)
)

// anchorsOf returns the anchors that GitHub gives to the headings of a page.
func anchorsOf(t *testing.T, path string) map[string]bool {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	anchors, times := map[string]bool{}, map[string]int{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(h[1], "$1")
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		if n := times[slug]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", slug, n)] = true
		} else {
			anchors[slug] = true
		}
		times[slug]++
	}
	return anchors
}

// Every link of a page to a file or a heading of the repository leads there, as does every name of a
// page in the source.
func TestNoLinkOfTheDocumentsIsDead(t *testing.T) {
	t.Parallel()
	links := 0
	check := func(from, base, link string) {
		links++
		file, anchor, _ := strings.Cut(link, "#")
		if file, err := url.PathUnescape(file); err != nil {
			t.Errorf("%s: %s: %v", from, link, err)
		} else if path := filepath.Join(base, file); file != "" || anchor != "" {
			if file == "" {
				path = from
			}
			if info, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", from, link)
			} else if anchor != "" && !info.IsDir() && strings.HasSuffix(path, ".md") && !anchorsOf(t, path)[anchor] {
				t.Errorf("%s links to %s: there is no such heading", from, link)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); path != "../.." && (name == "node_modules" || name == "dist" || name == "bin" || strings.HasPrefix(name, ".") && name != ".github") {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".md":
		case ".go", ".sh", ".yml", ".yaml", ".toml", ".txt", ".tsx":
		default:
			if d.Name() != "Makefile" {
				return nil
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(raw)
		if !strings.HasSuffix(path, ".md") {
			for _, name := range pageName.FindAllString(text, -1) {
				check(path, "../..", name)
			}
			return nil
		}
		text = code.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, link := range mdLink.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(link[1], ":") {
				check(path, filepath.Dir(path), link[1])
			}
		}
		return nil
	})
	if err != nil || links < 100 {
		t.Errorf("%d links: %v", links, err)
	}
}

// The pages for users stay short: 2,200 words each, 26,000 in all.
func TestThePagesForUsersAreShort(t *testing.T) {
	t.Parallel()
	total := 0
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "development" || d.Name() == "reference" {
			return cmp.Or(err, fs.SkipDir)
		}
		if strings.HasSuffix(path, ".md") {
			text, err := os.ReadFile(path)
			words := len(strings.Fields(string(text)))
			if total += words; err != nil || words > 2200 {
				t.Errorf("%s has %d words, %v", path, words, err)
			}
		}
		return nil
	})
	if err != nil || total == 0 || total > 26000 {
		t.Errorf("they have %d words, %v", total, err)
	}
}
