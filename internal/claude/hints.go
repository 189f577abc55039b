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

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Bounds of the work for all hints of one task.
const (
	maxGlobEntries = 50_000      // looked at
	maxGlobMatches = 1_000       // taken from one pattern
	maxGlobWork    = 100_000_000 // characters of patterns against characters of names; under a second
)

var (
	errHintPath = errors.New("only relative paths inside the working folder are read")
	errBinary   = errors.New("not a text file")
	errTooMany  = errors.New("the pattern matches too much; the rest is left out")
)

// hintFile is one file to put before the prompt.
type hintFile struct {
	name string
	text string
	cut  bool // only its beginning fits
}

// missedHint is a hint, or a file of one, that could not be used, and why.
type missedHint struct {
	hint   string
	reason string
}

// gatherHints reads the files that the hints name from the workdir. Nothing
// outside it can be reached: os.Root refuses paths and symbolic links that
// leave it. When all are larger than limit bytes the oldest, those named first,
// are cut first.
//
// It stops when ctx ends, and its work is bounded whatever the patterns are.
func gatherHints(ctx context.Context, workdir string, hints []string, limit int) (files []hintFile, missed []missedHint) {
	if len(hints) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return nil, []missedHint{{hint: "*", reason: "the working folder cannot be read"}}
	}
	defer root.Close()
	search := &hintSearch{walker: walker{ctx: ctx, root: root, left: maxGlobEntries}, work: maxGlobWork}
	seen := map[string]bool{}
	total := 0
	// From the newest to the oldest, so that no more is read than fits.
	for _, hint := range slices.Backward(hints) {
		if ctx.Err() != nil {
			break
		}
		names, err := search.expand(hint)
		if err != nil {
			missed = append(missed, missedHint{hint, hintReason(err)})
		}
		for _, name := range slices.Backward(names) {
			if seen[name] {
				continue
			}
			seen[name] = true
			if total >= limit {
				missed = append(missed, missedHint{name, "left out: the hints are larger than the limit"})
				continue
			}
			text, more, err := readLimited(root, name, limit-total)
			if err != nil {
				missed = append(missed, missedHint{name, hintReason(err)})
				continue
			}
			total += len(text)
			files = append(files, hintFile{name, text, more})
		}
	}
	slices.Reverse(files)
	slices.Reverse(missed)
	return files, missed
}

// hintReason is a sentence without the machine's paths.
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

// expand turns a hint into the names of files: itself, or what a pattern
// with *, ?, [ ] or ** matches.
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
		return []string{name}, nil // a file may be called that
	}
	// Several ** in a row match what one does.
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

// hidden names folders that a pattern does not enter unless it names them.
func hidden(name string) bool { return name == ".git" || name == "node_modules" }

// fixedPrefix is the folder before the first segment with a wildcard, so that a
// walk begins there.
func fixedPrefix(pattern []string) string {
	for i, segment := range pattern {
		if strings.ContainsAny(segment, "*?[") {
			return path.Join(append([]string{"."}, pattern[:i]...)...)
		}
	}
	return "."
}

// matchSegments matches a path against a pattern in which ** stands for any
// number of folders. It fills a table row by row, so that many ** cost no more
// than pattern times path.
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

// readLimited reads at most limit bytes of a text file. more reports that there
// was more.
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
	text = clip(string(content), limit)
	return text, len(text) < len(content), nil
}

// withHints puts the files before the prompt.
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
