package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestTheCommandsOfTheContextsPageWork runs every command of docs/contexts.md as printed, in order,
// against a server and two workers.
func TestTheCommandsOfTheContextsPageWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/contexts.md")
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.serve()
	h.anything(standin.Sequence(standin.Reply{Text: "noted"}))
	for _, name := range []string{"one", "two"} {
		h.work(workerOptions{name: name}).says("registered")
	}
	ran := 0
	for _, command := range commands(string(page)) {
		switch {
		case strings.HasPrefix(command, "make "):
			makes(t, strings.TrimPrefix(command, "make "))
			continue
		case strings.HasPrefix(command, "bloom artifacts move"): // needs object storage, which this server does not have
			h.bloom(t, "", "artifacts", "move").want(t, 1, "", "object storage")
			continue
		}
		args, ok := words(command)
		if !ok || args[0] != "bloom" {
			t.Errorf("what is this: %q", command)
			continue
		}
		for i, arg := range args {
			if arg == "ID" {
				args[i] = "trip"
			}
		}
		ran++
		if c := h.bloom(t, "", args[1:]...); c.code != 0 {
			t.Errorf("%s ends with %d: %s", command, c.code, c.err)
		} else if strings.Contains(command, "contexts show") && !strings.Contains(c.out, "trip") {
			t.Errorf("%s prints\n%s", command, c.out)
		}
	}
	if ran < 8 {
		t.Errorf("only %d commands were run", ran)
	}
}

// commands returns the lines of a page's code blocks, then the commands within its text.
func commands(page string) (all []string) {
	for i, part := range strings.Split(page, "```") {
		if i%2 == 1 && !strings.HasPrefix(part, "json") {
			_, lines, _ := strings.Cut(part, "\n")
			for line := range strings.Lines(lines) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
				if line != "" {
					all = append(all, line)
				}
			}
		}
		if i%2 == 0 {
			for _, m := range regexp.MustCompile("`(bloom [a-z]+ [^`]*)`").FindAllStringSubmatch(part, -1) {
				all = append(all, strings.Join(strings.Fields(m[1]), " "))
			}
		}
	}
	return all
}

// words splits a command like a shell that knows only double quotes.
func words(command string) (args []string, ok bool) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(command, -1) {
		args = append(args, m[1]+m[2])
	}
	return args, len(args) > 1
}

// makes checks that the Makefile has a target and that the tests it runs exist.
func makes(t *testing.T, target string) {
	t.Helper()
	raw, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(target, " ")
	_, recipe, ok := strings.Cut(string(raw), "\n"+name+":")
	if !ok {
		t.Fatalf("there is no make %s", name)
	}
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	for _, m := range regexp.MustCompile(`-run '([^']+)' (\S+)`).FindAllStringSubmatch(recipe, -1) {
		for test := range strings.SplitSeq(m[1], "|") {
			if !hasTest(t, filepath.Join("..", m[2]), test) {
				t.Errorf("make %s runs %s in %s, which is not there", name, test, m[2])
			}
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), "func "+name+"(") {
			return true
		}
	}
	return false
}
