package maintenance_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// dying fails at every step in turn, before or after it was done.
type dying struct {
	contract.AuditChainStore
	auditlog.Files
	steps int // that still succeed
	after bool
}

func (d *dying) step(do func() error) error {
	if d.steps--; d.steps >= 0 {
		return do()
	}
	if d.after && d.steps == -1 {
		_ = do()
	}
	return errDied
}

func (d *dying) SetAuditExport(ctx context.Context, was, is contract.AuditExport) error {
	return d.step(func() error { return d.AuditChainStore.SetAuditExport(ctx, was, is) })
}

func (d *dying) Create(ctx context.Context, name string, content []byte) error {
	return d.step(func() error { return d.Files.Create(ctx, name, content) })
}

func TestAnExportThatDiesWritesEachEntryOnce(t *testing.T) {
	t.Parallel()
	bucket, err := objects.Open(miniotest.Start(t).Bucket())
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]auditlog.Files{"sqlite": folder(t), "postgresql": auditlog.NewBucket(bucket)}
	for name, s := range auditedStores(t) {
		files, total := where[name], int64(0)
		for i := range 8 {
			fill(t, s, 5)
			total += 5
			d := &dying{s, files, i % 4, i >= 4}
			if _, err := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: d, Files: d}).RunOnce(t.Context()); i%4 < 3 && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			fill(t, s, 2) // newer ones are not added to the file that was begun
			total += 2
		}
		export(t, s, files)
		r, err := auditlog.Verify(t.Context(), s, files)
		if err != nil || r.Lines != total || r.Entries != total {
			t.Errorf("%s: %+v, %v; want %d lines", name, r, err, total)
		}
	}
}

// unsealed chains its entries only after several looks.
type unsealed struct {
	contract.AuditChainStore
	looks int // that find nothing chained
}

func (u *unsealed) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	head, prev, links, err = u.AuditChainStore.AuditLinks(ctx, after, limit)
	if u.looks--; u.looks >= 0 {
		for i := range links {
			links[i].Hash = ""
		}
	}
	return head, prev, links, err
}

// A restored database chains its last entries while the export starts; the export must compare the
// files without waiting for its next turn.
func TestAnExportWaitsForEntriesToCompare(t *testing.T) {
	t.Parallel()
	for name, s := range auditedStores(t) {
		files := folder(t)
		fill(t, s, 5)
		export(t, s, files)
		was, err := s.AuditExport(t.Context())
		if err == nil {
			err = s.SetAuditExport(t.Context(), was, contract.AuditExport{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: &unsealed{s, 2}, Files: files}).RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is, err := s.AuditExport(t.Context()); err != nil || is != was {
			t.Errorf("%s: it was exported to %+v, then to %+v, %v", name, was, is, err)
		}
	}
}

// freezing stops before or after a step until it is thawed.
type freezing struct {
	contract.AuditChainStore
	auditlog.Files
	steps         int // before the one that freezes
	after         bool
	frozen, thawn chan struct{}
}

func (f *freezing) step(do func() error) error {
	if f.steps--; f.steps != -1 {
		return do()
	}
	freeze := func() {
		close(f.frozen)
		<-f.thawn
	}
	if f.after {
		defer freeze()
		return do()
	}
	freeze()
	return do()
}

func (f *freezing) SetAuditExport(ctx context.Context, was, is contract.AuditExport) error {
	return f.step(func() error { return f.AuditChainStore.SetAuditExport(ctx, was, is) })
}

func (f *freezing) Create(ctx context.Context, name string, content []byte) error {
	return f.step(func() error { return f.Files.Create(ctx, name, content) })
}

// An exporter that freezes at any step and continues later delays nobody and writes nothing twice.
func TestAFrozenExportIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, s := range auditedStores(t) {
		files, total := folder(t), int64(0)
		for i := range 6 {
			fill(t, s, 5)
			f := &freezing{s, files, i % 3, i >= 3, make(chan struct{}), make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				_, err := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: f, Files: f}).RunOnce(t.Context())
				done <- err
			}()
			<-f.frozen
			export(t, s, files)
			fill(t, s, 3)
			export(t, s, files)
			total += 8
			r, err := auditlog.Verify(t.Context(), s, files)
			if err != nil || r.Lines != total {
				t.Errorf("%s: while one is frozen at step %d: %+v, %v; want %d lines", name, i, r, err, total)
			}
			close(f.thawn)
			<-done // it may find that others have continued
			fill(t, s, 1)
			total++
			export(t, s, files)
			if r, err := auditlog.Verify(t.Context(), s, files); err != nil || r.Lines != total || r.Entries != total || len(r.Forks) > 0 {
				t.Errorf("%s: after one was frozen at step %d: %+v, %v; want %d lines", name, i, r, err, total)
			}
		}
	}
}
