package claude

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

const (
	// wordJoiner is invisible and of no width.
	wordJoiner = '\u2060'
	// maxMentionPath bounds what is looked at as a mention's path, in bytes.
	maxMentionPath = 4096
	// maxMentionLooks bounds the file system calls for one prompt; mentions
	// beyond it are all guarded.
	maxMentionLooks = 20_000
)

// guardPrompt keeps a prompt a prompt. The command line gives two beginnings a
// meaning of their own: a text that begins with a slash runs one of its
// commands, and "@path" reads the file before any permission is asked, also
// outside the working folder. The first gets a line before it; the second
// invisible characters around the @, where the path leads, or may lead, outside,
// or to something that is neither file nor folder: a pipe would hang claude.
func guardPrompt(prompt, workdir string) string {
	g := mentionGuard{workdir: workdir, judged: map[string]bool{}}
	prompt = g.guard(bloom.CleanText(prompt))
	if strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		return "The task, as it was posted:\n\n" + prompt
	}
	return prompt
}

// mentionGuard judges the mentions of one prompt.
type mentionGuard struct {
	workdir string // without symbolic links
	judged  map[string]bool
	looks   int
}

func (g *mentionGuard) guard(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	previous := ' ' // the beginning counts as a space
	for i, r := range text {
		// A mention begins after a space or a character outside ASCII; after
		// other ASCII it is part of a word, an address or code.
		if r == '@' && (unicode.IsSpace(previous) || previous >= utf8.RuneSelf) && g.dangerous(text[i+1:]) {
			// Before it, so that no mention begins; after it, so that the path
			// is another one even where a version sees a beginning.
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

// dangerous reports whether the path at the beginning of the text leads, or may
// lead, where claude must not read without a permission.
func (g *mentionGuard) dangerous(text string) bool {
	// Bounded: a path is short, and a text of many @ must not cost its square.
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
	verdict, known := g.judged[path]
	if !known {
		verdict = g.leads(path)
		g.judged[path] = verdict
	}
	return verdict
}

// leads follows a relative path through the working folder. Where a mention
// ends is claude's to decide ("@name," "@name#L3"), so that every shorter name
// that may be meant is judged too.
func (g *mentionGuard) leads(path string) bool {
	dir := g.workdir
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		for _, meant := range meantNames(name) {
			if g.looks++; g.looks > maxMentionLooks || g.offLimits(filepath.Join(dir, meant)) {
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

// meantNames are the name and its beginnings that end before a character that
// may follow a mention in a sentence.
func meantNames(name string) []string {
	names := []string{name}
	for i, r := range name {
		if i > 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			names = append(names, name[:i])
		}
	}
	return names
}

// offLimits reports whether the path is there and is, in the end, something
// outside the working folder, or neither file nor folder.
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
