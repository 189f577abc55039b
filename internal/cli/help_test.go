package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// docs/commands.md has the pages of all commands; go test -run TheReference -update writes it.
func TestTheReferenceHasThePageOfEachCommand(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	p.env["HOME"] = "/home/someone"
	var text strings.Builder
	text.WriteString("# Commands\n\nGenerated from the program. `bloom COMMAND --help` and `man bloom` have the same text.\n")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+(?:[ -][a-z]+)*?)  +\S`)
	var visit func(path ...string)
	visit = func(path ...string) {
		page := p.must(append(path, "--help")...)
		text.WriteString("\n## " + strings.Join(append([]string{"bloom"}, path...), " ") + "\n\n```text\n" + strings.NewReplacer(p.env["HOME"], "~", "default host", "default HOSTNAME").Replace(page) + "```\n")
		_, below, groups := strings.Cut(page, "\nCommands:\n")
		switch {
		case len(path) == 0:
			if n := strings.Count(page, "\n"); n > 50 {
				t.Errorf("the first page has %d lines", n)
			}
			_, below, _ = strings.Cut(page, "\nRun:\n")
		case !groups && path[0] != "help" && (strings.Contains(page, "log-level=") || !strings.Contains(page, "\nExamples:\n")):
			t.Errorf("the page of %v has flags of all commands, or no examples:\n%s", path, page)
		case !groups:
			return
		}
		for _, c := range commands.FindAllStringSubmatch(below, -1) {
			visit(strings.Fields(c[1])...)
		}
	}
	visit()
	golden(t, "../../../docs/commands.md", text.String())
}

func TestFirstStepsAreNamedWhereNothingIsSetUp(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	rt.Down()
	const hint = "Nothing is set up here yet. Start everything on this machine:  bloom up\n"
	p := newPerson(t, nil)
	if got := p.run(); got.code != cli.ExitOK || !strings.HasPrefix(got.out, "BLOOM") || !strings.Contains(got.out, hint) {
		t.Errorf("bloom: %+v", got)
	}
	if got := p.run("stats", "--url", rt.URL); got.code != cli.ExitFailure || strings.Contains(got.err, hint) {
		t.Errorf("with a server that is named: %+v", got)
	}
	if err := os.MkdirAll(filepath.Join(p.env["HOME"], ".local/share/bloom"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := p.run(); strings.Contains(got.out, hint) {
		t.Errorf("with a data folder: %+v", got)
	}
}

func TestTheManualPageHasEveryCommandAndNothingOfThisMachine(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	page := p.must("man")
	for _, want := range []string{".SS bloom task list [flags]\n", ".SH SETTINGS\n", `\-\-ca\-file=FILE`, "~/.local/share/bloom"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, not := range []string{p.env["HOME"], "default host", "<no value>"} {
		if strings.Contains(page, not) {
			t.Errorf("it has %q", not)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // checked where it is installed
	}
	cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}
