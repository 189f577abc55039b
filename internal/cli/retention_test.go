package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func TestRetentionShowsWhatIsOldAndRemovesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, app.DatabaseFile), Clock: storetest.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 3 {
		n := storetest.Plain("c")
		if i == 2 {
			n = storetest.Plain("nothing of it is unfinished")
		}
		_, _, err := s.CreateTask(t.Context(), n)
		if err == nil && i > 0 {
			_, err = s.Cancel(t.Context(), n.ID, "me")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := newPerson(t, nil)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing is removed unless asked": {nil, []string{`"tasks": "off"`, `"old": {}`}},
		"tasks":                           {[]string{"--retention-tasks=30d"}, []string{`"tasks": 2`, `"events": 4`}},
		"events":                          {[]string{"--retention-events=30d"}, []string{`"events": "30d"`, `"events": 4`}},
		"audit":                           {[]string{"--retention-audit=30d"}, []string{`"audit": 4`}},
		"contexts":                        {[]string{"--retention-contexts=30d"}, []string{`"contexts": "30d"`, `"contexts": 1`}},
	} {
		out := p.must(append([]string{"retention", "--json", "--data-dir", dir}, c.args...)...) // while a server has it open
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %s in\n%s", name, want, out)
			}
		}
	}
	if out := p.must("retention", "--data-dir", dir, "--retention-events=7d", "--retention-tasks=30d"); !strings.Contains(out, "their events") || !strings.Contains(out, "7d") || !strings.Contains(out, "forever") {
		t.Errorf("it shows\n%s", out)
	}
	if got := p.run("retention", "--data-dir", dir, "--retention-tasks=5m"); got.code != cli.ExitUsage || !strings.Contains(got.err, "too short") {
		t.Errorf("5m: exit code %d, %s", got.code, got.err)
	}
	if st, err := s.Stats(t.Context()); err != nil || st.Tasks.Total != 3 {
		t.Errorf("%+v, %v", st, err)
	}
}
