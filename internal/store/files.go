package store

import (
	"cmp"
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// FileKey identifies a file of an attempt.
type FileKey struct {
	TaskID string
	Epoch  int64
	Path   string
}

var (
	files      = derived[FileKey, *bloom.Artifact]() // files of attempts
	fileCounts = derived[OutcomeKey, int64]()        // attempts: how many files they have
	archived   = derived[string, int64]()            // tasks: the last event that is in a run log
)

func loadFiles(l *Load, v *Values[FileKey, *bloom.Artifact]) {
	keys := v.Keys()
	l.Each(scan(artifactFields, func(a *bloom.Artifact) { v.Set(FileKey{a.TaskID, a.Epoch, a.Path}, a) }),
		`SELECT `+artifactColumns+` FROM `+l.Table("task uuid", "epoch bigint", "path text")+`
			JOIN runtime_artifacts a ON a.task_id = k.task AND a.epoch = k.epoch AND a.path = k.path`,
		l.Columns(Column(keys, func(k FileKey) string { return k.TaskID }), Column(keys, func(k FileKey) int64 { return k.Epoch }),
			Column(keys, func(k FileKey) string { return k.Path }))...)
}

func loadFileCounts(l *Load, v *Values[OutcomeKey, int64]) {
	type count struct {
		OutcomeKey
		n int64
	}
	attempts, args := l.attempts(v.Keys())
	l.Each(scan(func(c *count) []any { return []any{&c.TaskID, &c.Epoch, &c.n} }, func(c *count) { v.Set(c.OutcomeKey, c.n) }),
		`SELECT k.task, k.epoch, (SELECT count(*) FROM runtime_artifacts a WHERE a.task_id = k.task AND a.epoch = k.epoch AND a.path IS NOT NULL) FROM `+attempts, args...)
}

func loadArchived(l *Load, v *Values[string, int64]) {
	l.Pick(scan(keyedFields[int64], func(k *keyed[int64]) { v.Set(k.key, k.value) }),
		`SELECT t.id, r.upto FROM llm_tasks t JOIN run_transcripts r ON r.task = t.seq`, "t.id", "uuid", IDs(v.Keys()), "")
}

// endedLayout records streams that have ended, archivedLayout how far they are in
// run logs.
var (
	endedLayout    = layout("run_transcripts", "task bigint, due bool", Replace)
	archivedLayout = layout("run_transcripts", "task bigint, due bool, upto bigint", Replace)
)

func endedValues(v []any, k *Archived) []any    { return append(v, k.Task, k.Due) }
func archivedValues(v []any, k *Archived) []any { return append(v, k.Task, k.Due, *k.UpTo) }

// AddArtifact adds a file to an active lease. It reports whether the file was already
// there.
func (s *Store) AddArtifact(ctx context.Context, n contract.NewArtifact) (bloom.Artifact, bool, error) {
	if !storable.IsID(n.ID) || n.Path == "" {
		return bloom.Artifact{}, false, bloom.Invalid("A file needs an id, which must be a UUID, and a path")
	}
	type answer struct {
		a        bloom.Artifact
		replayed bool
	}
	done, err := do(ctx, s, func(r *Rows) { wantNamed(r, n.TaskID, n.LeaseID) }, func(u *Unit) (answer, error) {
		a, replayed, err := u.addArtifact(n)
		return answer{a, replayed}, err
	})
	return done.a, done.replayed, err
}

func (u *Unit) addArtifact(n contract.NewArtifact) (none bloom.Artifact, replayed bool, err error) {
	t, l, err := u.named(n.TaskID, n.LeaseID)
	if err != nil {
		return none, false, err
	}
	if l.Status != bloom.LeaseActive || l.Epoch != t.Epoch {
		return none, false, bloom.ErrLeaseLost
	}
	key := FileKey{l.TaskID, l.Epoch, n.Path}
	was, count, err := u.file(key)
	switch {
	case err != nil:
		return none, false, err
	case was != nil && was.SHA256 == n.SHA256 && was.Size == n.Size:
		return *was, true, nil
	case was != nil:
		return none, false, bloom.Conflict("The attempt already has another file at '%s'", n.Path)
	case count >= contract.MaxFiles:
		return none, false, bloom.Conflict("The attempt already has %d files, which is the limit", count)
	}
	a := n.Artifact(l.Epoch, u.Now)
	u.addFile(a, n.PendingUpload)
	u.audit(audit.ActionArtifactAdded, audit.EntityArtifact, a.ID, cmp.Or(n.Actor, l.WorkerID), "Added "+a.Path+" to task "+t.ID, storable.MustJSON(a.EventData()))
	u.event(t, Event{Type: bloom.EventArtifact, At: u.Now, Epoch: t.Epoch, Data: storable.MustJSON(a.EventData())})
	u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeEvents, TaskID: t.ID})
	return a, false, nil
}

// addFile adds an artifact that is not part of an outcome.
func (u *Unit) addFile(a bloom.Artifact, displaced bool) {
	u.changed()
	files.set(u, FileKey{a.TaskID, a.Epoch, a.Path}, &a)
	attempt := OutcomeKey{a.TaskID, a.Epoch}
	n, _ := fileCounts.get(u, attempt) // file has read it
	fileCounts.set(u, attempt, n+1)
	u.c.Files = append(u.c.Files, NewArtifact{a, displaced})
}

// file returns the attempt's file at a path, nil if there is none, and how many files
// the attempt has.
func (u *Unit) file(key FileKey) (was *bloom.Artifact, count int64, err error) {
	was, err = files.get(u, key)
	count, uncounted := fileCounts.get(u, OutcomeKey{key.TaskID, key.Epoch})
	return was, count, cmp.Or(err, uncounted)
}

// ArchivedTo returns the number of the last of a task's events that is in a
// run log.
func (s *Store) ArchivedTo(ctx context.Context, taskID string) (int64, error) {
	return do(ctx, s, func(r *Rows) { tasks.want(r, taskID); archived.want(r, taskID) }, func(u *Unit) (int64, error) {
		t, err := u.task(taskID)
		if err != nil {
			return 0, err
		}
		return u.archivedTo(t)
	})
}

func (u *Unit) archivedTo(t *Task) (int64, error) {
	if k := u.kept[t.Seq]; k != nil && k.UpTo != nil {
		return *k.UpTo, nil
	}
	return archived.get(u, t.ID)
}

// stream returns the pending change of a task's archive state.
func (u *Unit) stream(t *Task) *Archived {
	k := u.kept[t.Seq]
	if k == nil {
		u.changed()
		k = &Archived{Task: t.Seq}
		u.kept[t.Seq] = k
		u.c.Archived = append(u.c.Archived, k)
	}
	return k
}

// UnarchivedStreams lists old tasks with events that are in no run log.
func (s *Store) UnarchivedStreams(ctx context.Context, r contract.RemoveRequest) (ids []string, next int64, more bool, err error) {
	f, err := s.findOld(ctx, r, s.OldStreams)
	if err != nil || len(f.old) == 0 {
		return nil, f.next, f.more, err
	}
	reads := func(r *Rows) {
		for _, e := range f.old {
			aged.want(r, e.ID)
		}
	}
	ids, err = doUnbatched(ctx, s, reads, func(u *Unit) (ids []string, err error) {
		for _, e := range u.stillOld(f) {
			if e.Archived < e.Last {
				ids = append(ids, e.ID)
			}
		}
		return ids, nil
	})
	return ids, f.next, f.more, err
}

// AddRunLogs adds run logs of an ended task's events. Adding the same again
// changes nothing.
func (s *Store) AddRunLogs(ctx context.Context, r contract.AddRunLogs) error {
	reads := func(rows *Rows) {
		tasks.want(rows, r.TaskID)
		archived.want(rows, r.TaskID)
		for _, n := range r.Artifacts {
			files.want(rows, FileKey{r.TaskID, n.Epoch, n.Path})
			fileCounts.want(rows, OutcomeKey{r.TaskID, n.Epoch})
		}
	}
	_, err := do(ctx, s, reads, func(u *Unit) (struct{}, error) {
		return struct{}{}, u.addRunLogs(r)
	})
	return err
}

func (u *Unit) addRunLogs(r contract.AddRunLogs) error {
	t, err := u.task(r.TaskID)
	if err != nil {
		return err
	}
	upto, err := u.archivedTo(t)
	if err != nil {
		return err
	}
	replayed, err := u.hasRunLogs(r)
	switch {
	case err != nil || replayed:
		return err
	case !t.Status.Terminal():
		return bloom.Conflict("Task status is '%s': its run log is written when it has ended", t.Status)
	case upto != r.After || r.To > t.LastEvent:
		return bloom.Conflict("The task's run log was written in the meantime")
	}
	for i := range r.Artifacts {
		n := r.Artifacts[i]
		was, _, err := u.file(FileKey{r.TaskID, n.Epoch, n.Path})
		if err != nil {
			return err
		}
		if was != nil { // a file was uploaded at this path
			n.Path = uniqueRunLogPath(n.Path, n.ID)
		}
		u.addFile(n.Artifact(n.Epoch, u.Now), n.PendingUpload)
	}
	k := u.stream(t)
	k.UpTo, k.Due = &r.To, r.To < t.LastEvent
	return nil
}

// hasRunLogs reports whether these run logs were added already: their commit's
// answer may have been lost, so that the store repeats the operation. A caller deletes
// the uploads of run logs that are refused.
func (u *Unit) hasRunLogs(r contract.AddRunLogs) (bool, error) {
	for _, n := range r.Artifacts {
		was, _, err := u.file(FileKey{r.TaskID, n.Epoch, n.Path})
		if was != nil && was.ID != n.ID {
			was, _, err = u.file(FileKey{r.TaskID, n.Epoch, uniqueRunLogPath(n.Path, n.ID)})
		}
		if err != nil || was == nil || was.ID != n.ID {
			return false, err
		}
	}
	return len(r.Artifacts) > 0, nil
}

// Archived changes a task's archive state: the last event that is in a run log
// (nil: unchanged), and whether more events are to be archived.
type Archived struct {
	Task int64
	UpTo *int64
	Due  bool
}

// Streams splits Archived into tasks that have only ended and tasks whose UpTo changes.
func (c *Changes) Streams() (ended, kept []*Archived) {
	for _, k := range c.Archived {
		if k.UpTo == nil {
			ended = append(ended, k)
		} else {
			kept = append(kept, k)
		}
	}
	return ended, kept
}

// DueRunLogs lists tasks with events that are in no run log.
func (s *Store) DueRunLogs(ctx context.Context, after int64, limit int) (ids []string, next int64, err error) {
	due, err := all(ctx, s, func(e *listEntry[string]) []any { return []any{&e.seq, &e.item} },
		`SELECT t.seq, t.id FROM run_transcripts d JOIN llm_tasks t ON t.seq = d.task WHERE `+s.sql.True("d.due")+` AND d.task > $1
			ORDER BY d.task LIMIT CAST($2 AS BIGINT)`, after, limit)
	ids, next = []string{}, after
	for _, e := range due {
		ids, next = append(ids, e.item), e.seq
	}
	return ids, next, err
}

// uniqueRunLogPath returns a path for the run log with this id, for use when its regular path is taken.
func uniqueRunLogPath(path, id string) string {
	const ext = ".jsonl.gz"
	return strings.TrimSuffix(path, ext) + "-" + id + ext
}
