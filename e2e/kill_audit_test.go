package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// TestTheAuditIsCompleteWhateverIsKilled kills servers at random moments while others create and
// cancel tasks. Every acknowledged change must be in one chain, and each entry of the chain once in
// the files, in order.
func TestTheAuditIsCompleteWhateverIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		folder := filepath.Join(h.dir, "audit-files")
		server := h.serve("--audit-export", folder)
		auditKills(t, h, h.api, folder, func(int) {
			server.kill()
			server = h.serve("--audit-export", folder)
		})
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		url, front := pgtest.Start(t), newBalancer(t)
		h := newHarness(t)
		h.front = front
		folder := filepath.Join(h.dir, "audit-files")
		replicas := h.replicas(2, url, "--audit-export", folder)
		for _, r := range replicas {
			r.begin()
		}
		auditKills(t, h, h.api, folder, func(i int) {
			r := replicas[i%2]
			r.proc.kill()
			r.begin()
		})
	})
}

// TestAFrozenServerDoesNotBlockTheAudit freezes one of two servers at a random moment: the other
// one continues to chain and to export, and nothing is duplicated.
func TestAFrozenServerDoesNotBlockTheAudit(t *testing.T) {
	t.Parallel()
	url, front := pgtest.Start(t), newBalancer(t)
	h := newHarness(t)
	h.front = front
	folder := filepath.Join(h.dir, "audit-files")
	replicas := h.replicas(2, url, "--audit-export", folder)
	for _, r := range replicas {
		r.begin()
	}
	random, rounds := seeded(t), 2
	full := os.Getenv("E2E_CAMPAIGN") == "full"
	if full {
		rounds = 8
	}
	load := startAuditLoad(t, replicas[0].api, replicas[1].api)
	for i := range rounds {
		frozen, other := replicas[i%2], replicas[1-i%2]
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond)))) // the fault's moment, not a wait for something
		frozen.proc.signal(syscall.SIGSTOP)
		defer frozen.proc.signal(syscall.SIGCONT)
		var task bloom.Task
		eventually(t, "the other server takes a task", func() (ok bool) {
			made, err := other.api.Submit(t.Context(), spec("never run"))
			task = made
			return err == nil
		})
		var seq int64
		eventually(t, "the other server chains it", func() bool {
			list, _, err := other.api.Audit(t.Context(), bloom.AuditQuery{EntityID: task.ID})
			if err != nil || len(list) == 0 || list[0].Hash == "" {
				return false
			}
			seq = list[0].Seq
			return true
		})
		if full && i < 2 { // after a minute it takes over the export, too
			eventually(t, "the other server exports it", func() bool {
				at, err := auditlog.Served(other.api.AuditChain).AuditExport(t.Context())
				return err == nil && at.Exported >= seq
			})
		}
		frozen.proc.signal(syscall.SIGCONT)
	}
	auditIsWhole(t, h, h.api, folder, load.stop(), func(i int) {
		r := replicas[i%2]
		r.proc.kill()
		r.begin()
	})
}

func auditKills(t *testing.T, h *harness, api *client.Client, folder string, again func(i int)) {
	random := seeded(t)
	load := startAuditLoad(t, api, api)
	kills := 6
	if os.Getenv("E2E_CAMPAIGN") == "full" {
		kills = 20
	}
	for i := range kills {
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond)))) // the fault's moment, not a wait for something
		again(i)
	}
	auditIsWhole(t, h, api, folder, load.stop(), again)
}

// auditLoad creates and cancels tasks.
type auditLoad struct {
	cancel       context.CancelFunc
	all          sync.WaitGroup
	mu           sync.Mutex
	acknowledged []string // tasks, both created and cancelled
}

func startAuditLoad(t *testing.T, apis ...*client.Client) *auditLoad {
	ctx, cancel := context.WithCancel(t.Context())
	l := &auditLoad{cancel: cancel}
	t.Cleanup(func() { l.stop() })
	for i := range 4 {
		api := apis[i%len(apis)]
		l.all.Go(func() {
			for ctx.Err() == nil {
				task, err := api.Submit(ctx, spec("never run"))
				if err == nil {
					_, err = api.Cancel(ctx, task.ID)
				}
				if err == nil {
					l.mu.Lock()
					l.acknowledged = append(l.acknowledged, task.ID)
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

// stop ends the load and returns the acknowledged tasks.
func (l *auditLoad) stop() []string {
	l.cancel()
	l.all.Wait()
	return l.acknowledged
}

// auditIsWhole expects every acknowledged change in one chain, and the chain in the files. again
// restarts a server.
func auditIsWhole(t *testing.T, h *harness, api *client.Client, folder string, acknowledged []string, again func(i int)) {
	t.Helper()
	var chain *audit.Verifier
	eventually(t, "everything is chained", func() bool {
		v, err := audit.Verify(t.Context(), auditlog.Served(api.AuditChain), nil)
		if err != nil {
			t.Fatal(err)
		}
		chain = v
		return v.Unchained == 0
	})
	again(0) // a server exports at its start
	again(1)
	files, err := auditlog.ReadFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	var report auditlog.Report
	limit := time.Now().Add(3 * time.Minute) // the second of two replicas may have to wait for the minute to end
	for report.LastLine < chain.Last().Seq && time.Now().Before(limit) {
		if report, err = auditlog.Verify(t.Context(), auditlog.Served(api.AuditChain), files); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if report.FirstLine != report.First || report.Lines < chain.Entries || len(report.Starts) != 0 {
		t.Errorf("the files hold %+v, want the whole chain of %d entries to %d", report, chain.Entries, chain.Last().Seq)
	}
	t.Logf("%d tasks acknowledged; %+v", len(acknowledged), report)
	seen := map[string]int{}
	_, err = audit.Verify(t.Context(), auditlog.Served(api.AuditChain), func(l audit.Link) error {
		if l.Entry != nil {
			seen[l.Entry.Action+" "+l.Entry.EntityID]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range acknowledged {
		if seen["task_created "+id] != 1 || seen["task_cancelled "+id] != 1 {
			t.Errorf("task %s is %d and %d times in the chain, want once created, once cancelled", id, seen["task_created "+id], seen["task_cancelled "+id])
		}
	}
	if got := h.bloom(t, "", "audit", "verify", "--files", folder); got.code != 0 || !strings.Contains(got.out, "unchanged") {
		t.Errorf("bloom audit verify: %+v", got)
	}
}
