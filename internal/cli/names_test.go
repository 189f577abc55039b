package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

var someTime = regexp.MustCompile(` *[0-9.]+m?s ago *`)

func TestCommandsHaveTheNamesThatPeopleType(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	id := strings.TrimSpace(p.must("task", "submit", "--agent", "a", "do it"))
	for _, same := range [][2]string{
		{"help", "--help"}, {"help task run", "task run --help"}, {"help ids", "help ids --help"}, {"help task", "task --help"},
		{"tasks", "task list"}, {"tasks --json", "task list --json"}, {"tasks show " + id, "task show " + id}, {"task get " + id, "task show " + id}, {"task ls", "task list"},
		{"worker list", "workers list"}, {"worker ls", "workers"}, {"lease", "leases"}, {"leases list", "leases"}, {"contexts forget --help", "contexts rm --help"}, {"workers remove --help", "workers rm --help"}, {"keys revoke --help", "keys rm --help"}, {"artifacts get --help", "artifacts show --help"}, {"worker get --help", "workers show --help"}, {"artifact list", "artifacts"}, {"context", "contexts"}, {"key list", "keys"},
	} {
		got, want := p.run(strings.Fields(same[0])...), p.run(strings.Fields(same[1])...)
		got.out, want.out = someTime.ReplaceAllString(got.out, ""), someTime.ReplaceAllString(want.out, "")
		if got != want || got.code != cli.ExitOK {
			t.Errorf("bloom %s: %+v, want %+v", same[0], got, want)
		}
	}
	if got := p.run("logs", id); got.code != cli.ExitOK && !strings.Contains(got.out, "created") {
		t.Errorf("logs: %+v", got)
	}
	if got := p.run("contexts", "remove", "nothing"); !strings.Contains(got.err, "not found: nothing") {
		t.Errorf("contexts remove: %+v", got)
	}
	if got := p.run("tasks", "get"); !strings.Contains(got.err, "See: bloom task show --help") {
		t.Errorf("a mistake: %+v", got)
	}
}
