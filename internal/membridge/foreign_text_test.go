package membridge_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// PostgreSQL keeps no NUL and no invalid UTF-8; both databases answer the same.
func TestTextThatADatabaseRefusesIsNoInnerError(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	for name, change := range map[string]func(*membridge.Config){
		"sqlite":   func(*membridge.Config) {},
		"postgres": func(c *membridge.Config) { c.DatabaseURL, c.Clock = url, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := ready(t, change)
			for _, text := range []string{"%00", "a%00", "%ff"} {
				p.want(t, 404, "DELETE", "/agents/"+text, "")
				p.want(t, 404, "POST", "/agents/"+text+"/heartbeat", "{}")
				p.want(t, 404, "DELETE", "/projects/"+text, "")
				p.want(t, 404, "GET", "/jobs/"+text, "")
				p.want(t, 200, "GET", "/projects/"+text+"/nodes", "")
				p.want(t, 200, "POST", "/projects/"+text+"/leadership/select", `{"primary_node_id":"a"}`)
				if jobs := p.want(t, 200, "GET", "/jobs?project="+text, "").list(t); len(jobs) != 0 {
					t.Errorf("jobs of %s: %v", text, jobs)
				}
			}
			p.want(t, 404, "POST", "/sync/push", strings.Replace(order, `"a"`, `"a\u0000"`, 1))
			p.want(t, 200, "POST", "/agents/a/heartbeat", `{"held":["\u0000"]}`)
		})
	}
}
