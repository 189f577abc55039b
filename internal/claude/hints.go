package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Limits of the work for all hints of one task.
const (
	maxGlobEntries = 50_000      // entries examined
	maxGlobMatches = 1_000       // matches of one pattern
	maxGlobWork    = 100_000_000 // sum of pattern length times name length; takes less than a second
)

var (
	errHintPath = errors.New("only relative paths inside the working folder are read")
	errBinary   = errors.New("not a text file")
	errTooMany  = errors.New("the pattern matches too many files; the rest is left out")
)

// hintFile is one file to put before the prompt.
type hintFile struct {
	name string
	text string
	cut  bool // only its beginning is in text
}

// skippedHint is a hint, or a file of one, that could not be used, and why.
type skippedHint struct {
	hint   string
	reason string
}

// gatherHints reads the files that the hints name from workdir. It reads nothing outside
// it: os.Root refuses paths and symbolic links that leave it. If the files are larger than
// limit bytes together, the first ones are truncated or left out. Its work is bounded
// whatever the patterns are, and it stops when ctx ends.
func gatherHints(ctx context.Context, workdir string, hints []string, limit int) (files []hintFile, skipped []skippedHint) {
	if len(hints) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return nil, []skippedHint{{hint: "*", reason: "the working folder cannot be read"}}
	}
	defer root.Close()
	search := &hintSearch{walker: walker{ctx: ctx, root: root, left: maxGlobEntries}, work: maxGlobWork}
	seen := map[string]bool{}
	total := 0
	// Read from the last to the first, and no more than fits.
	for _, hint := range slices.Backward(hints) {
		if ctx.Err() != nil {
			break
		}
		names, err := search.expand(hint)
		if err != nil {
			skipped = append(skipped, skippedHint{hint, hintReason(err)})
		}
		for _, name := range slices.Backward(names) {
			if seen[name] {
				continue
			}
			seen[name] = true
			if total >= limit {
				skipped = append(skipped, skippedHint{name, "left out: the hints are larger than the limit"})
				continue
			}
			text, more, err := readLimited(root, name, limit-total)
			if err != nil {
				skipped = append(skipped, skippedHint{name, hintReason(err)})
				continue
			}
			total += len(text)
			files = append(files, hintFile{name, text, more})
		}
	}
	slices.Reverse(files)
	slices.Reverse(skipped)
	return files, skipped
}

// hintReason returns the text of an error, without paths of this machine.
func hintReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "not readable"
	case errors.Is(err, errHintPath), errors.Is(err, workspace.ErrNotRegular), errors.Is(err, errBinary), errors.Is(err, errTooMany):
		return err.Error()
	case errors.Is(err, path.ErrBadPattern):
		return "not a valid pattern"
	}
	return "refused: it cannot be read inside the working folder"
}

// hintSearch expands the patterns of one task's hints.
type hintSearch struct {
	walker
	work int // what is left of maxGlobWork
}

// expand returns the names of a hint's files: the hint itself, or what a pattern with *,
// ?, [ ] or ** matches.
func (s *hintSearch) expand(hint string) ([]string, error) {
	name := path.Clean(strings.TrimPrefix(hint, "./"))
	if hint == "" || strings.ContainsAny(hint, "\x00\\") || path.IsAbs(hint) ||
		slices.Contains(strings.Split(hint, "/"), "..") || !fs.ValidPath(name) {
		return nil, errHintPath
	}
	if !strings.ContainsAny(name, "*?[") {
		return []string{name}, nil
	}
	if _, err := s.root.Lstat(name); err == nil {
		return []string{name}, nil // a file of exactly that name
	}
	// Several ** in a row match the same as one.
	return s.glob(slices.CompactFunc(strings.Split(name, "/"), func(a, b string) bool { return a == "**" && b == "**" }))
}

func (s *hintSearch) glob(pattern []string) ([]string, error) {
	for _, segment := range pattern {
		if _, err := path.Match(segment, ""); err != nil {
			return nil, err
		}
	}
	var names []string
	err := s.walk(fixedPrefix(pattern), func(dir string) bool {
		return !hidden(path.Base(dir)) || slices.Contains(pattern, path.Base(dir))
	}, func(name string) error {
		segments := strings.Split(name, "/")
		for _, segment := range pattern {
			s.work -= (len(segment) + 1) * (len(name) + 1)
		}
		if s.work < 0 || len(names) >= maxGlobMatches {
			return errTooMany
		}
		if matchSegments(pattern, segments) {
			names = append(names, name)
		}
		return nil
	})
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	if err == nil && len(names) == 0 {
		err = fs.ErrNotExist
	}
	return names, err
}

// hidden reports whether patterns do not enter the folder unless they name it.
func hidden(name string) bool { return name == ".git" || name == "node_modules" }

// fixedPrefix returns the folder before the first segment with a wildcard, where the walk
// begins.
func fixedPrefix(pattern []string) string {
	for i, segment := range pattern {
		if strings.ContainsAny(segment, "*?[") {
			return path.Join(append([]string{"."}, pattern[:i]...)...)
		}
	}
	return "."
}

// matchSegments matches a path against a pattern in which ** matches any number of
// folders. It fills a table row by row, so that the cost is pattern length times path
// length even with many **.
func matchSegments(pattern, name []string) bool {
	row := make([]bool, len(name)+1) // row[j]: the pattern so far matches name[:j]
	row[0] = true
	for _, segment := range pattern {
		next := make([]bool, len(name)+1)
		if segment == "**" {
			reached := false
			for j := range row {
				reached = reached || row[j]
				next[j] = reached
			}
		} else {
			for j := range name {
				if row[j] {
					matched, err := path.Match(segment, name[j])
					next[j+1] = matched && err == nil
				}
			}
		}
		row = next
	}
	return row[len(name)]
}

// readLimited reads at most limit bytes of a text file, and reports whether it has more.
func readLimited(root *os.Root, name string, limit int) (text string, more bool, err error) {
	file, _, err := workspace.OpenRegular(root, name)
	if err != nil {
		return "", false, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return "", false, err
	}
	if slices.Contains(content[:min(len(content), 8<<10)], 0) {
		return "", false, errBinary
	}
	text = storable.Cut(string(content), limit)
	return text, len(text) < len(content), nil
}

// withHints returns the prompt preceded by the files.
func withHints(prompt string, files []hintFile) string {
	if len(files) == 0 {
		return prompt
	}
	var b strings.Builder
	b.WriteString("Files from the working folder that the caller named as context, oldest first:\n\n")
	for _, file := range files {
		note := ""
		if file.cut {
			note = ` cut="true"`
		}
		fmt.Fprintf(&b, "<file path=%q%s>\n%s\n</file>\n\n", file.name, note, strings.TrimRight(file.text, "\n"))
	}
	b.WriteString(prompt)
	return b.String()
}
