package httpapi_test

import (
	"slices"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/problems"
)

// A worker that leases and releases without end is stopped before it floods the audit, and people see
// which one it is.
func TestAWorkersReleasesAreLimitedAndShown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	releasesWithoutEnd(r)
	var found bloom.Problems
	r.call(200, &found, "GET", "/problems", "")
	if !slices.ContainsFunc(found.Problems, func(p bloom.Problem) bool { return p.Code == problems.CodeQuota && slices.Contains(p.Names, "w1") }) {
		t.Errorf("nothing says which worker it is: %+v", found.Problems)
	}
}

// releasesWithoutEnd leases a task to a worker with a key of its own, which releases it, until that is
// refused.
func releasesWithoutEnd(r *fixture) {
	const atOnce = 256
	r.worker("w1", 4)
	var key bloom.CreatedKey
	r.call(201, &key, "POST", "/keys", `{"name":"k","role":"worker","worker_id":"w1"}`)
	task := r.task("")
	defer func() { r.key = adminKey }()
	for i := 0; ; i++ {
		r.key = adminKey
		lease := r.lease(task.ID).Lease.ID
		r.key = key.Key
		a := r.do("POST", "/api/runtime/llm-tasks/"+task.ID+"/release", `{"lease_id":"`+lease+`","reason":"r"}`)
		if a.status == 429 && a.header.Get("Retry-After") != "" && i >= atOnce {
			return
		}
		if a.status != 200 || i > 2*atOnce {
			r.t.Fatalf("release %d: %d %s", i, a.status, a.body)
		}
	}
}
