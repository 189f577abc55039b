package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

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
		t.Errorf("with a data directory: %+v", got)
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
