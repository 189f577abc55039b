package maintenance_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// listed is a chain in memory, which grows faster than one in a database.
type listed struct {
	contract.AuditChainStore
	mu    sync.Mutex
	links []audit.Link
	at    contract.AuditExport
}

// add chains entries with one time.
func (l *listed) add(n int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		a, prev := bloom.Audit{Seq: int64(len(l.links) + 1), Timestamp: at.UnixMilli(), Action: "test"}, audit.NoHash
		if len(l.links) > 0 {
			prev = l.links[len(l.links)-1].Hash
		}
		a.Hash = audit.Hash(prev, audit.Canonical(a))
		l.links = append(l.links, audit.Link{Seq: a.Seq, Hash: a.Hash, Entry: &a})
	}
}

func (l *listed) AuditLinks(_ context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prev.Hash = audit.NoHash
	if after > 0 {
		prev = l.links[after-1]
	}
	links = slices.Clone(l.links[after:min(int(after)+limit, len(l.links))])
	return bloom.ChainHead{Seq: int64(len(l.links))}, prev, links, nil
}

func (l *listed) AuditExport(context.Context) (contract.AuditExport, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, nil
}

func (l *listed) SetAuditExport(_ context.Context, was, is contract.AuditExport) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != was {
		return bloom.Conflict("changed")
	}
	l.at = is
	return nil
}

func (l *listed) AuditLag(context.Context) (contract.AuditLag, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return contract.AuditLag{ToExport: int64(len(l.links)) - l.at.Exported}, nil
}

// A file is written as soon as there are enough entries for it, and has those of one day, UTC.
func TestAFullFileIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s, dir, wrote := &listed{}, t.TempDir(), make(chan int, 10)
	files, err := auditlog.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	export := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: s, Files: files, Every: time.Hour, Wrote: func(n int) { wrote <- n }})
	full := maintenance.NewAuditExportFull(s, export, slog.New(slog.DiscardHandler))
	day := time.Date(2026, 11, 22, 23, 59, 59, 0, time.UTC)
	s.add(1, day)
	export.Start()
	defer export.Stop()
	if n := <-wrote; n != 1 {
		t.Fatalf("at its start it wrote %d entries", n)
	}
	s.add(2, day)
	s.add(maintenance.ExportBatch-3, day.Add(time.Second))
	look := func() {
		if _, err := full.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look() // one is missing
	s.add(1, day.Add(time.Second))
	s.add(2, day.Add(time.Hour))
	look()
	for _, want := range []int{2, maintenance.ExportBatch} {
		if n := <-wrote; n != want {
			t.Errorf("it wrote %d entries, want %d", n, want)
		}
	}
	s.add(maintenance.ExportBatch+1, day.Add(time.Hour))
	look()
	for _, want := range []int{maintenance.ExportBatch, 1} {
		if n := <-wrote; n != want {
			t.Errorf("it wrote %d entries, want %d", n, want)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "audit/2026/11/*/*.jsonl.gz"))
	if err != nil || len(found) != 5 || strings.Count(fmt.Sprint(found), "/11/22/") != 2 {
		t.Errorf("the files are %v, %v", found, err)
	}
	if r, err := auditlog.Verify(t.Context(), nil, files); err != nil || r.Lines != 2*maintenance.ExportBatch+4 {
		t.Errorf("%+v, %v", r, err)
	}
}
