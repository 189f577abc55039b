package sqlite_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// BenchmarkStored shows that nothing gets slower as the store grows: a thousand queued tasks or a
// hundred thousand, and as many ended ones.
func BenchmarkStored(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := benchStore(b)
			storetest.AddWorkers(b, s, 4)
			fill(b, s, n)
			ctx := context.Background()
			each := map[string]func() error{
				"claim idle": func() error {
					_, err := s.Claim(ctx, contract.ClaimRequest{WorkerID: "worker-00"})
					return err
				},
				"claim and release": func() error {
					r, err := s.Claim(ctx, contract.ClaimRequest{WorkerID: "worker-01", Max: 1})
					if err != nil {
						return err
					}
					l := r.Leases[0].Lease
					_, err = s.Release(ctx, l.TaskID, bloom.ReleaseSpec{LeaseID: l.ID}, "bench")
					return err
				},
				"lifecycle": func() error { return storetest.Lifecycle(s, "a context") },
				"list": func() error {
					_, _, err := s.Tasks(ctx, bloom.TaskQuery{})
					return err
				},
				"list a status": func() error {
					_, _, err := s.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskQueued})
					return err
				},
				"list what is rare": func() error {
					_, _, err := s.Tasks(ctx, bloom.TaskQuery{AgentSlug: "writer", ContextID: "nobody's"})
					return err
				},
				"audit": func() error {
					_, _, err := s.Audit(ctx, bloom.AuditQuery{Action: audit.ActionTaskLeased})
					return err
				},
				"stats": func() error {
					_, err := s.Stats(ctx)
					return err
				},
			}
			for name, fn := range each {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := fn(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// fill creates n queued and n ended tasks.
func fill(b *testing.B, s contract.Store, n int) {
	b.Helper()
	var all sync.WaitGroup
	for c := range 16 {
		all.Go(func() {
			for i := c; i < n; i += 16 {
				context := fmt.Sprint("context-", i%1000)
				if _, _, err := s.CreateTask(b.Context(), storetest.Plain(context)); err != nil {
					b.Error(err)
				}
				if err := storetest.Lifecycle(s, context); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}
