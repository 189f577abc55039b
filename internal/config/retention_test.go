package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/config"
)

func TestAges(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		age   time.Duration
		shown string
	}{
		"off": {0, "off"}, "0": {0, "off"}, "30d": {720 * time.Hour, "30d"}, "720h": {720 * time.Hour, "30d"},
		"36h": {36 * time.Hour, "36h"}, "1h30m": {90 * time.Minute, "1h30m0s"},
	} {
		s, _, err := parse(t, "", map[string]string{"BLOOM_RETENTION_TASKS": in})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := s.RetentionTasks; time.Duration(got) != want.age || got.String() != want.shown {
			t.Errorf("%q is read as %s and shown as %q, want %s and %q", in, time.Duration(got), got, want.age, want.shown)
		}
	}
}

func TestNothingIsRemovedUnlessSomebodySaysSo(t *testing.T) {
	t.Parallel()
	s, src, err := parse(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Retention != (config.Retention{}) {
		t.Errorf("the default is %+v", s.Retention)
	}
	for _, one := range src.List() {
		if strings.HasPrefix(one.Key, "retention_") && one.Value != "off" {
			t.Errorf("%s is shown as %q", one.Key, one.Value)
		}
	}
}

func TestAgesFromEverySource(t *testing.T) {
	t.Parallel()
	s, _, err := parse(t, `retention_tasks = "30d"`, map[string]string{"BLOOM_RETENTION_EVENTS": "7d"}, "--retention-audit=400d", "--retention-contexts=90d")
	if err != nil {
		t.Fatal(err)
	}
	day := config.Age(24 * time.Hour)
	if want := (config.Retention{RetentionTasks: 30 * day, RetentionEvents: 7 * day, RetentionAudit: 400 * day, RetentionContexts: 90 * day}); s.Retention != want {
		t.Errorf("got %+v, want %+v", s.Retention, want)
	}
}

func TestUnreasonableAgesAreRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"30m": "too short", "59m59s": "too short", "1ms": "too short", "-1h": "must be an age", "30": "must be an age", "soon": "must be an age",
		"30days": "must be an age", "-3d": "must be an age", "99999d": "must be an age", "1.5d": "must be an age",
	} {
		for _, name := range []string{"tasks", "events", "audit", "contexts"} {
			_, _, err := parse(t, "", nil, "--retention-"+name+"="+in)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "retention-"+name) {
				t.Errorf("--retention-%s=%s: got %v, want an error with %q", name, in, err, want)
			}
		}
	}
}
