package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func decodeInto(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

func TestMembridgeHasAgentsPushAndPull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	observe(t, one.env["CLAUDE_MEM_DB"])
	f.background(one, "memory", "agent")
	f.background(two, "memory", "agent")
	job := f.order("push", "one", project)
	if job.Status != "completed" || job.ReturnCode == nil || *job.ReturnCode != 0 || !strings.Contains(job.Stdout, "1 observations") || !strings.Contains(job.Stderr, "uploading") {
		t.Fatalf("push: %+v", job)
	}
	if job := f.order("pull", "two", project); job.Status != "completed" || !strings.Contains(job.Detail, "pushed by one") {
		t.Fatalf("pull: %+v", job)
	}
	observe(t, two.env["CLAUDE_MEM_DB"])
	if job := f.order("push", "two", project); job.Status != "failed" || job.ReturnCode == nil || *job.ReturnCode != 3 || !strings.Contains(job.Detail, "only one, the primary") {
		t.Fatalf("a secondary's push: %+v", job)
	}
	f.ask(http.MethodPost, "/projects", `{"name":"orchard"}`, nil)
	if job := f.order("push", "one", "orchard"); job.Status != "failed" || !strings.Contains(job.Detail, "CLAUDE_PROJECT_ID=orchard") {
		t.Fatalf("another project's push: %+v", job)
	}
	f.await("what the nodes have", func() bool {
		n := f.nodes()
		return n["one"].ObsCount != nil && *n["one"].ObsCount == 1 && n["two"].ObsCount != nil && *n["two"].ObsCount == 2 &&
			len(n["one"].DBSHA) == 64 && n["one"].DBSHA != n["two"].DBSHA
	})
}

func TestAPromotionInMembridgeReachesPushAndPull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	observe(t, one.env["CLAUDE_MEM_DB"])
	wantRun(t, one.run("memory", "push"), 0, "pushed")
	wantRun(t, two.run("memory", "pull"), 0, "pulled")
	f.background(one, "memory", "agent")
	f.background(two, "memory", "agent")
	f.await("the nodes", func() bool { return len(f.nodes()) == 2 })
	f.promote("two")
	f.await("the lease", func() bool {
		got := one.run("memory", "leadership")
		return strings.Contains(got.out, "two is primary, epoch 2")
	})
	observe(t, one.env["CLAUDE_MEM_DB"])
	wantRun(t, one.run("memory", "push"), 3, "only two, the primary")
	observe(t, two.env["CLAUDE_MEM_DB"])
	wantRun(t, two.run("memory", "push"), 0, "2 observations")
	wantRun(t, one.run("memory", "leadership", "--select", "one"), 1, "Membridge has selected two as primary until")
	wantRun(t, two.run("memory", "doctor"), 0, "two is primary (epoch 2)")
	if n := f.nodes(); n["two"].Role != "primary" || n["one"].Role != "secondary" {
		t.Fatalf("the nodes are %+v", n)
	}
}

func TestNodesKeepTheirMemoryInStep(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	for _, p := range []*person{one, two} {
		p.env["BLOOM_MEMORY_SYNC"] = "1s"
	}
	observe(t, one.env["CLAUDE_MEM_DB"])
	first := f.background(one, "memory", "agent")
	second := f.background(two, "memory", "agent")
	has := func(p *person, n int) {
		t.Helper()
		f.await(fmt.Sprintf("%d observations on %s", n, p.env["MEMBRIDGE_NODE_ID"]), func() bool { return observations(t, p.env["CLAUDE_MEM_DB"]) == n })
	}
	has(two, 1)
	observe(t, one.env["CLAUDE_MEM_DB"])
	has(two, 2)
	f.promote("two")
	f.await("the new primary", func() bool {
		return strings.Contains(second.String(), "membridge selected the primary") || strings.Contains(first.String(), "membridge selected the primary")
	})
	observe(t, two.env["CLAUDE_MEM_DB"])
	has(one, 3)
	if n := strings.Count(first.String(), "memory pushed"); n != 2 {
		t.Errorf("the first primary says %d times that it pushed", n)
	}
	f.await("the second primary's push", func() bool { return strings.Contains(second.String(), "memory pushed") }) // it is logged afterwards
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)                                                  // some rounds without changes
	defer cancel()
	<-ctx.Done()
	if n := strings.Count(second.String(), "memory pushed"); n != 1 {
		t.Errorf("the second primary says %d times that it pushed", n)
	}
	if n := strings.Count(second.String(), "memory pulled"); n != 2 {
		t.Errorf("the first secondary says %d times that it pulled", n)
	}
}
