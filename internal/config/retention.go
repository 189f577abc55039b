package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Retention configures how long ended work is kept. The zero value keeps it forever.
type Retention struct {
	RetentionTasks    Age `name:"retention-tasks" var:"BLOOM_RETENTION_TASKS" key:"retention_tasks" default:"off" placeholder:"AGE" help:"Remove tasks that ended longer ago (30d, 720h), with their results, artifacts, leases and events; off keeps them forever."`
	RetentionEvents   Age `name:"retention-events" var:"BLOOM_RETENTION_EVENTS" key:"retention_events" default:"off" placeholder:"AGE" help:"Remove the events of tasks that ended longer ago, and keep the tasks; off keeps them as long as their task."`
	RetentionAudit    Age `name:"retention-audit" var:"BLOOM_RETENTION_AUDIT" key:"retention_audit" default:"off" placeholder:"AGE" help:"Remove audit entries that are older, except those of unfinished tasks; off keeps them forever."`
	RetentionContexts Age `name:"retention-contexts" var:"BLOOM_RETENTION_CONTEXTS" key:"retention_contexts" default:"off" placeholder:"AGE" help:"Forget contexts without a new or ended task for longer, on the server and the workers; off keeps them forever."`
}

// Finish refuses ages that would remove what is still in use.
func (r Retention) Finish() error {
	for _, s := range []struct {
		flag string
		age  Age
	}{{"--retention-tasks", r.RetentionTasks}, {"--retention-events", r.RetentionEvents}, {"--retention-audit", r.RetentionAudit}, {"--retention-contexts", r.RetentionContexts}} {
		if s.age != 0 && time.Duration(s.age) < contract.MinRetention {
			return fmt.Errorf("%s: %s is too short, keep at least %s (or off, forever)", s.flag, time.Duration(s.age), Age(contract.MinRetention))
		}
	}
	return nil
}

// Keep returns the setting as the root package's type.
func (r Retention) Keep() contract.Keep {
	return contract.Keep{
		Tasks: time.Duration(r.RetentionTasks), Events: time.Duration(r.RetentionEvents), Audit: time.Duration(r.RetentionAudit), Contexts: time.Duration(r.RetentionContexts),
	}
}

// Age is a retention period: "30d", "36h", or "off", the zero value, for forever.
type Age time.Duration

const (
	day    = 24 * time.Hour
	maxAge = 36500 * day
)

// UnmarshalText parses days ("30d") or a Go duration; "off" and "0" mean forever.
func (a *Age) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "off" || s == "0" {
		*a = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 16); err == nil {
			d = time.Duration(n) * day
		}
	}
	if err != nil || d < 0 || d > maxAge {
		return fmt.Errorf("must be an age like 30d or 36h, or off, not %q", s)
	}
	*a = Age(d)
	return nil
}

// String returns what UnmarshalText parses, in whole days if possible.
func (a Age) String() string {
	switch d := time.Duration(a); {
	case d == 0:
		return "off"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return d.String()
	}
}
