package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// archive is a database with many ended tasks, and a snapshot of what it had.
type archive struct {
	*testing.T
	h        *harness
	db       *pgx.Conn
	replicas []*replica

	batches [][]string            // of ended tasks that age together
	before  map[string]belongings // of each task, by its id
	old     map[string]bool       // has aged
	mu      sync.Mutex
	content map[string]string // the file of a task, by its id

	requeued map[string]bool // by a person: true, or perhaps
	midst    int             // kills in the middle of a removal
}

// newArchive fills the database: batches of ended tasks, some of which are the last of a context in
// which another task waits; queued and leased tasks; and tasks that ended recently.
func newArchive(t *testing.T, h *harness, url string, batches int) *archive {
	t.Helper()
	a := &archive{T: t, h: h, content: map[string]string{}, old: map[string]bool{}, requeued: map[string]bool{}}
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	a.must(err)
	defer store.Close()
	// One folder for what is too long for a row, as the docs say.
	dir := filepath.Join(h.dir, "artifacts")
	blobs, err := local.Open(dir, "")
	a.must(err)
	defer blobs.Close()
	for n := range 2 {
		at := filepath.Join(h.dir, "replica-"+strconv.Itoa(n))
		a.must(os.MkdirAll(at, 0o700))
		a.must(os.Symlink(dir, filepath.Join(at, "artifacts")))
	}
	for n := range 8 {
		_, _, err := store.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: fmt.Sprint("w", n), Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32}}, "test")
		a.must(err)
	}
	f := filler{archive: a, store: store, blobs: blobs}
	for b := range batches {
		f.all(agedBatch, func(n int) string {
			// Every fifth shares its context with a queued task.
			context := fmt.Sprintf("own %d %d", b, n)
			if n%5 == 0 {
				context = fmt.Sprintf("living %d %d", b, n%20)
			}
			return f.ended(context, n)
		})
		a.batches = append(a.batches, f.made)
		f.all(4, func(n int) string { return f.task(fmt.Sprintf("living %d %d", b, 5*n)) })
	}
	f.all(20, func(n int) string { return f.ended(fmt.Sprint("young ", n), n) })
	f.all(20, func(n int) string { id, _ := f.leased(fmt.Sprint("held ", n)); return id })
	a.db, err = pgx.Connect(t.Context(), url)
	a.must(err)
	t.Cleanup(func() { _ = a.db.Close(context.WithoutCancel(t.Context())) })
	a.before = a.snapshot()
	return a
}

func (a *archive) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// filler creates tasks, many at once.
type filler struct {
	*archive
	store *postgres.Store
	blobs *local.Store
	made  []string
}

func (f *filler) all(n int, one func(int) string) {
	f.Helper()
	f.made = make([]string, n)
	var wait sync.WaitGroup
	for w := range 16 {
		wait.Go(func() {
			for i := w; i < n; i += 16 {
				f.made[i] = one(i)
			}
		})
	}
	wait.Wait()
	if f.Failed() {
		f.FailNow()
	}
}

func (f *filler) check(err error) {
	f.Helper()
	if err != nil {
		f.Error(err)
	}
}

func (f *filler) task(context string) string {
	id := uuid.Must(uuid.NewV7()).String()
	_, _, err := f.store.CreateTask(f.Context(), contract.NewTask{ID: id, BodyHash: "h", Spec: bloom.TaskSpec{
		ContextID: context, AgentSlug: "a", Prompt: "p", MaxAttempts: 3, DesiredFormat: "text", Policy: bloom.Policy{TimeoutSec: 120},
	}})
	f.check(err)
	return id
}

func (f *filler) leased(context string) (task, lease string) {
	id := f.task(context)
	l, _, err := f.store.LeaseTask(f.Context(), contract.LeaseRequest{TaskID: id, TTLSec: 7200})
	f.check(err)
	return id, l.ID
}

// ended creates an ended task, every third a failed one; every second has a file.
func (f *filler) ended(context string, n int) string {
	id, lease := f.leased(context)
	r := contract.CompleteRequest{
		TaskID: id, ArtifactID: uuid.Must(uuid.NewV7()).String(), ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: "h",
		Size: 4, MediaType: "text/plain", Actor: "w", Completion: bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, ArtifactType: bloom.DefaultArtifactType},
	}
	if n%3 == 0 {
		message := "it went wrong"
		r.Completion.Status, r.Completion.ErrorMessage = bloom.OutcomeError, &message
	}
	text := "text"
	sum := sha256.Sum256([]byte(text))
	if r.SHA256 = hex.EncodeToString(sum[:]); n%2 == 0 {
		key := "artifacts/" + id + "/" + r.ArtifactID
		url, err := f.blobs.Put(f.Context(), key, strings.NewReader(text), 4, r.SHA256)
		f.check(err)
		r.URL = &url
		f.mu.Lock()
		f.content[id] = filepath.Join(f.h.dir, "artifacts", filepath.FromSlash(strings.TrimPrefix(url, local.Scheme)))
		f.mu.Unlock()
	} else {
		r.Content = &text
	}
	_, err := f.store.Complete(f.Context(), r)
	f.check(err)
	return id
}

// belongings are a task with everything that belongs to it, as JSON.
type belongings struct {
	status                    bloom.TaskStatus
	task, rest, events, audit string
}

func (a *archive) snapshot() map[string]belongings {
	a.Helper()
	all := map[string]belongings{}
	rows, err := a.db.Query(a.Context(), `SELECT t.id::text, t.status, to_jsonb(t)::text, concat_ws(E'\n',
			(SELECT jsonb_agg(to_jsonb(x) - 'expires_at' ORDER BY x.seq) FROM leases x WHERE x.task_id = t.id),
			(SELECT jsonb_agg(x ORDER BY x.epoch) FROM llm_results x WHERE x.task_id = t.id),
			(SELECT jsonb_agg(x ORDER BY x.seq) FROM runtime_artifacts x WHERE x.task_id = t.id)),
		coalesce((SELECT jsonb_agg(x ORDER BY x.seq)::text FROM task_events x WHERE x.task = t.seq), ''),
		coalesce((SELECT jsonb_agg(to_jsonb(x) ORDER BY x.seq)::text FROM audit_logs x WHERE x.entity_id = t.id::text), '')
		FROM llm_tasks t`)
	a.must(err)
	var id string
	var is belongings
	_, err = pgx.ForEachRow(rows, []any{&id, &is.status, &is.task, &is.rest, &is.events, &is.audit}, func() error {
		all[id] = is
		return nil
	})
	a.must(err)
	return all
}

// age makes a batch two hours older.
func (a *archive) age(batch int) {
	a.Helper()
	tx, err := a.db.Begin(a.Context())
	a.must(err)
	_, err = tx.Exec(a.Context(), `SELECT seq FROM audit_head FOR UPDATE`)
	a.must(err)
	for _, statement := range []string{
		`UPDATE llm_tasks SET created_at = created_at - 7200000, updated_at = updated_at - 7200000, run_at = run_at - 7200000 WHERE id = ANY($1::text[]::uuid[])`,
		`UPDATE audit_logs SET timestamp = timestamp - 7200000 WHERE entity_id = ANY($1::text[])`,
	} {
		_, err := tx.Exec(a.Context(), statement, a.batches[batch])
		a.must(err)
	}
	// The chain would show that the audit was changed: it starts again.
	for _, statement := range []string{`DELETE FROM audit_chain`, `UPDATE audit_head SET seq = 0, hash = decode(repeat('00', 32), 'hex')`} {
		_, err := tx.Exec(a.Context(), statement)
		a.must(err)
	}
	a.must(tx.Commit(a.Context()))
	now := a.snapshot()
	for _, id := range a.batches[batch] {
		a.before[id], a.old[id] = now[id], true
	}
}
