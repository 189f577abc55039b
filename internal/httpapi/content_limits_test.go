package httpapi_test

import (
	"context"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// heldArtifacts is a store that holds each read of an artifact until the request ends.
type heldArtifacts struct {
	contract.Store
	reads chan struct{}
}

func (h *heldArtifacts) Artifact(ctx context.Context, _ string) (bloom.Artifact, error) {
	h.reads <- struct{}{}
	<-ctx.Done()
	return bloom.Artifact{}, ctx.Err()
}

func TestTwoSlowKeysLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	store := &heldArtifacts{reads: make(chan struct{}, 100)}
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		store.Store, d.Store = d.Store, store
		h.BodyBudget = 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		key := r.newKey(bloom.RoleViewer).Key
		for range 16 { // as many as one key may have
			req := r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "", auth.HeaderKey, key).WithContext(ctx)
			go func() {
				if res, err := r.client.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}()
			<-store.reads
		}
	}
	r.call(200, nil, "GET", "/llm-tasks", "")
}

func TestTheDownloadsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ streams, most, status int }{
		"by number": {2, 2, 429},
		"by memory": {0, 16, 503}, // each counts as twice 256 KiB, and a key may use 8 MiB
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &heldArtifacts{reads: make(chan struct{}, 100)}
			r := newFixture(t, withLimits(httpapi.Limits{Streams: c.streams}), func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
				store.Store, d.Store = d.Store, store
				h.BodyBudget = 1
			})
			ctx, cancel := context.WithCancel(t.Context())
			answers := make(chan int, 100)
			download := func() {
				go func() {
					res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "").WithContext(ctx))
					if err != nil {
						return // cancelled
					}
					_ = res.Body.Close()
					answers <- res.StatusCode
				}()
			}
			defer cancel()
			for range c.most {
				download()
				<-store.reads
			}
			download()
			select {
			case <-store.reads:
				t.Errorf("%d downloads at once", c.most+1)
			case status := <-answers:
				if status != c.status {
					t.Errorf("one more download: %d", status)
				}
			}
		})
	}
}
