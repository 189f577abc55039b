package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// cutStore is a database whose connection breaks at every commit of a completion.
type cutStore struct {
	contract.Store
	cut *atomic.Bool
}

func (s cutStore) Complete(ctx context.Context, r contract.CompleteRequest) (bloom.Completed, error) {
	if s.cut.Load() {
		return bloom.Completed{}, errors.New("connection reset")
	}
	return s.Store.Complete(ctx, r)
}

func TestRetriesOfACompletionLeaveOneUpload(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.Store = cutStore{d.Store, &cut} })
	r.worker("w", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease.ID
	output := strings.Repeat("o", 5<<20)
	body := `{"status":"success","lease_id":"` + lease + `","output":"` + output + `"}`
	cut.Store(true)
	for range 4 {
		r.fails(500, "", "POST", "/llm-tasks/"+task.ID+"/complete", body)
	}
	cut.Store(false)
	var done bloom.Completed
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	// The same output with other metrics is refused, and must not delete it.
	r.fails(409, "already_completed", "POST", "/llm-tasks/"+task.ID+"/complete", strings.Replace(body, `"output"`, `"metrics":{"duration_ms":7},"output"`, 1))
	if n := r.files(); n != 1 {
		t.Errorf("%d files of one completion", n)
	}
	if a := r.call(200, nil, "GET", "/artifacts/"+done.Artifact.ID+"/content", ""); string(a.body) != output {
		t.Errorf("the content has %d bytes", len(a.body))
	}
}
