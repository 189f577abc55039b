package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	shellWord  = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s|)>&;]+|[|)>&;]`)
	continued  = regexp.MustCompile(`\\\n\s*`)
	aCommand   = regexp.MustCompile(`(?:^|[;|&(])\s*(?:[A-Z_]+=\S*\s+|sudo (?:-u \S+ )?|exec |\S*/)*bloom ([^\n]+)`)
	inlineCode = regexp.MustCompile("`(?:\\S*/)?bloom ([^`\n]+)`")
	optional   = regexp.MustCompile(`\[(-[^]]*)\]`)
	flagAlone  = regexp.MustCompile("`(--[a-z][a-z-]+)[^`\n]*`")
)

// tryCommand parses what follows bloom in a line of a shell. It may lack arguments if it is only
// named, or asks for help.
func tryCommand(parser *kong.Kong, line string, named bool) error {
	var args []string
	for _, word := range shellWord.FindAllString(optional.ReplaceAllString(line, "$1"), -1) {
		if strings.ContainsAny(word[:1], "|)>&;#") {
			break
		}
		if word == "--help" || word == "--version" { // printed while they are parsed
			named = true
		} else {
			args = append(args, strings.Trim(word, `'"`))
		}
	}
	if len(args) == 0 || args[0] == "help" {
		return nil
	}
	kctx, err := parser.Parse(meant(args, parser.Model.Node))
	if err == nil {
		return checkGiven(kctx)
	}
	if named && (strings.HasPrefix(err.Error(), "expected ") || strings.HasPrefix(err.Error(), "missing ")) {
		return nil
	}
	return err
}

func parserOf(t *testing.T) *kong.Kong {
	parser, _, err := newParser(new(commands), nil, System{Out: io.Discard, Err: io.Discard, Hostname: "host", Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

func TestTheExamplesOfThePagesAreRight(t *testing.T) {
	t.Parallel()
	parser, n := parserOf(t), 0
	for line := range strings.Lines(pages) {
		if at := strings.Index(line, "bloom "); strings.HasPrefix(line, "\t") && at >= 0 {
			if err := tryCommand(parser, strings.TrimSpace(line[at+len("bloom "):]), false); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
			n++
		}
	}
	if n < 60 {
		t.Errorf("only %d examples", n)
	}
}

// Flags of other programs that the pages name.
var othersFlags = map[string]bool{"--fork-session": true, "--dangerously-skip-permissions": true, "--output-format": true, "--setting-sources": true, "--session-id": true, "--resume": true, "--link": true}

// A command in a block of the documents is complete; one in a sentence may lack its arguments.
func TestTheDocumentsNameOnlyCommandsAndFlagsThatExist(t *testing.T) {
	t.Parallel()
	parser := parserOf(t)
	known := map[string]bool{}
	add := func(flags []*kong.Flag) {
		for _, f := range flags {
			known["--"+f.Name] = true
			for _, alias := range f.Aliases {
				known["--"+alias] = true
			}
			if f.Tag.Negatable != "" {
				known["--no-"+f.Name] = true
			}
		}
	}
	add(parser.Model.Flags)
	for _, leaf := range parser.Model.Leaves(false) {
		add(leaf.Flags)
	}
	checked := 0
	check := func(path, line string, err error) {
		if checked++; err != nil {
			t.Errorf("%s: bloom %s: %v", path, line, err)
		}
	}
	page := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") || strings.Contains(path, "/reference/") {
			return err
		}
		raw, err := os.ReadFile(path)
		text := continued.ReplaceAllString(string(raw), " ")
		for i, part := range strings.Split(text, "```") {
			language, block, _ := strings.Cut(part, "\n")
			switch {
			case i%2 == 0:
				for _, c := range inlineCode.FindAllStringSubmatch(part, -1) {
					check(path, c[1], tryCommand(parser, strings.ReplaceAll(c[1], "…", ""), true))
				}
				for _, f := range flagAlone.FindAllStringSubmatch(part, -1) {
					if checked++; !known[f[1]] && !othersFlags[f[1]] {
						t.Errorf("%s names %s, which no command has", path, f[1])
					}
				}
			case strings.TrimSpace(language) == "sh" || strings.TrimSpace(language) == "bash" || strings.TrimSpace(language) == "":
				for line := range strings.Lines(block) {
					if c := aCommand.FindStringSubmatch(line); c != nil && !strings.HasPrefix(strings.TrimSpace(line), "#") {
						check(path, c[1], tryCommand(parser, c[1], false))
					}
				}
			}
		}
		return err
	}
	for _, root := range []string{"../../docs", "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../CHANGELOG.md", "../../examples/README.md"} {
		if err := filepath.WalkDir(root, page); err != nil {
			t.Fatal(err)
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands and flags", checked)
	}
}
