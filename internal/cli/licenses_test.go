package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// TestLicensesArePrinted prints what make build embeds, or how to get it.
func TestLicensesArePrinted(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	got := p.run("licenses")
	if text, err := os.ReadFile("licenses/third-party.txt"); err == nil {
		if got.out != string(text) || !strings.Contains(got.out, "\ngithub.com/alecthomas/kong v") {
			t.Errorf("prints %d bytes, not the %d embedded", len(got.out), len(text))
		}
	} else if got.code != cli.ExitFailure || !strings.Contains(got.err, "make build") {
		t.Errorf("exit code %d, %q", got.code, got.err)
	}
}
