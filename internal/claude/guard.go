package claude

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom/internal/storable"
)

const (
	// wordJoiner is invisible and of no width.
	wordJoiner = '\u2060'
	// maxMentionPath is the maximum length of a mention's path, in bytes.
	maxMentionPath = 4096
	// maxMentionLookups is the maximum number of file system calls for one prompt. All
	// mentions beyond it are neutralized.
	maxMentionLookups = 20_000
)

// guardPrompt prevents claude from interpreting two kinds of text in a prompt. A prompt
// that begins with a slash would run a command: it gets a line before it. "@path" would
// read a file without asking for permission, even outside the working folder: if the path
// leads outside, may lead outside, or is neither file nor folder (claude would block on a
// pipe), the @ gets invisible characters around it.
func guardPrompt(prompt, workdir string) string {
	g := mentionGuard{workdir: workdir, checked: map[string]bool{}}
	prompt = g.guard(storable.Text(prompt))
	if strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		return "The task, as it was posted:\n\n" + prompt
	}
	return prompt
}

// mentionGuard checks the mentions of one prompt.
type mentionGuard struct {
	workdir string // without symbolic links
	checked map[string]bool
	lookups int
}

func (g *mentionGuard) guard(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	previous := ' ' // the beginning counts as a space
	for i, r := range text {
		// A mention follows a space or a non-ASCII character. After another ASCII
		// character, @ is part of a word, an address or code.
		if r == '@' && (unicode.IsSpace(previous) || previous >= utf8.RuneSelf) && g.dangerous(text[i+1:]) {
			// The one before it prevents a mention. The one after it changes the path, for
			// versions that see a mention all the same.
			b.WriteRune(wordJoiner)
			b.WriteRune(r)
			b.WriteRune(wordJoiner)
		} else {
			b.WriteRune(r)
		}
		previous = r
	}
	return b.String()
}

// dangerous reports whether the path at the beginning of the text leads, or may lead, to
// something that claude must not read without permission.
func (g *mentionGuard) dangerous(text string) bool {
	// The limit keeps the cost of a text with many @ linear.
	path := text[:min(len(text), maxMentionPath)]
	if end := strings.IndexFunc(path, unicode.IsSpace); end >= 0 {
		path = path[:end]
	}
	if path == "" {
		return false
	}
	if strings.ContainsRune(`/~"'`, rune(path[0])) || strings.Contains(path, "..") || strings.Contains(path, `\`) {
		return true
	}
	outside, known := g.checked[path]
	if !known {
		outside = g.leadsOutside(path)
		g.checked[path] = outside
	}
	return outside
}

// leadsOutside follows a relative path through the working folder. Only claude knows where
// a mention ends ("@name," "@name#L3"), so it checks every possible shorter name, too.
func (g *mentionGuard) leadsOutside(path string) bool {
	dir := g.workdir
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		for _, candidate := range possibleNames(name) {
			if g.lookups++; g.lookups > maxMentionLookups || g.offLimits(filepath.Join(dir, candidate)) {
				return true
			}
		}
		dir = filepath.Join(dir, name)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return false
}

// possibleNames returns the name, and its prefixes that end before a character that may
// follow a mention in a sentence.
func possibleNames(name string) []string {
	names := []string{name}
	for i, r := range name {
		if i > 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			names = append(names, name[:i])
		}
	}
	return names
}

// offLimits reports whether the path exists and leads outside the working folder, or to
// something that is neither file nor folder.
func (g *mentionGuard) offLimits(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil || target != g.workdir && !strings.HasPrefix(target, g.workdir+string(filepath.Separator)) {
			return true
		}
		if info, err = os.Stat(target); err != nil {
			return true
		}
	}
	return !info.Mode().IsRegular() && !info.IsDir()
}
