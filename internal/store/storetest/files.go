package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// file returns a file of a lease, with stored content.
func file(taskID, leaseID, path, digest string) contract.NewArtifact {
	return contract.NewArtifact{ID: newID(), TaskID: taskID, LeaseID: leaseID, Path: path, Type: bloom.ArtifactFile, Tags: []string{"out/**"},
		MediaType: "text/plain", URL: "file:artifacts/" + newID(), Size: 3, SHA256: digest, PendingUpload: true, Actor: "w"}
}

var fileTests = map[string]func(*harness){
	"files are added under the active lease": func(h *harness) {
		h.worker("w", 8)
		task := h.create()
		lease := h.lease(task.ID, "w")
		n := file(task.ID, lease.ID, "out/a.txt", "s")
		a, replayed, err := h.s.AddArtifact(h.ctx, n)
		h.ok(err)
		same(h, "replayed", replayed, false)
		stored, err := h.s.Artifact(h.ctx, a.ID)
		h.ok(err)
		same(h, "stored", string(storable.MustJSON(stored)), string(storable.MustJSON(a)))
		if a.Path != n.Path || a.Epoch != lease.Epoch || *a.URL != n.URL || a.Type != n.Type || len(a.Tags) != 1 || a.Size != 3 || !a.Finalized {
			h.Errorf("artifact %+v", a)
		}
		displaced, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{PendingUpload: true})
		h.ok(err)
		same(h, "displaced", len(displaced), 1)
		again, replayed, err := h.s.AddArtifact(h.ctx, file(task.ID, lease.ID, "out/a.txt", "s"))
		h.ok(err)
		if !replayed || again.ID != a.ID {
			h.Errorf("a repeat made %s, replayed %v", again.ID, replayed)
		}
		_, _, err = h.s.AddArtifact(h.ctx, file(task.ID, lease.ID, "out/a.txt", "t"))
		h.refused(err, bloom.Conflict(""))
		_, _, err = h.s.AddArtifact(h.ctx, file(task.ID, newID(), "out/b.txt", "s"))
		h.refused(err, bloom.ErrLeaseLost)
		h.complete(success(task.ID, lease.ID, "text"))
		_, _, err = h.s.AddArtifact(h.ctx, file(task.ID, lease.ID, "out/c.txt", "s"))
		h.refused(err, bloom.ErrLeaseLost)
		all, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: task.ID})
		h.ok(err)
		same(h, "artifacts of the task", len(all), 2)
		same(h, "audited", fmt.Sprint(h.actions(a.ID)), "["+audit.ActionArtifactAdded+"]")
	},
	"a task is created with its attachments": func(h *harness) {
		h.worker("w", 8)
		n := newTask()
		n.Attachments = []contract.NewArtifact{file(n.ID, "", "attachments/a.txt", "s"), file(n.ID, "", "attachments/b.txt", "t")}
		task, _, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		want := []bloom.Attachment{{Name: "a.txt", Size: 3, SHA256: "s", ArtifactID: n.Attachments[0].ID}, {Name: "b.txt", Size: 3, SHA256: "t", ArtifactID: n.Attachments[1].ID}}
		again, replayed, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		same(h, "replayed", replayed, true)
		claimed := h.claim("w", 1).Leases[0].Task
		listed, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{})
		h.ok(err)
		for what, is := range map[string]bloom.Task{"created": task, "repeated": again, "read": h.task(task.ID), "claimed": claimed, "listed": listed[0]} {
			if !slices.Equal(is.Attachments, want) {
				h.Errorf("the task that was %s has %+v", what, is.Attachments)
			}
		}
		all, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: task.ID})
		h.ok(err)
		same(h, "artifacts of the task", len(all), 2)
		waiting, err := h.s.WaitingContent(h.ctx)
		h.ok(err)
		same(h, "contents to be moved", waiting, 2)
	},
	"an attempt has a bounded number of files": func(h *harness) {
		h.worker("w", 8)
		task := h.create()
		lease := h.lease(task.ID, "w")
		var wg sync.WaitGroup
		var refused atomic.Int64
		for worker := range 8 {
			wg.Go(func() {
				for i := worker; i < contract.MaxFiles+16; i += 8 {
					if _, _, err := h.s.AddArtifact(h.ctx, file(task.ID, lease.ID, fmt.Sprint("out/", i), "s")); err != nil {
						refused.Add(1)
					}
				}
			})
		}
		wg.Wait()
		same(h, "refused", refused.Load(), 16)
		_, err := h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: lease.ID}, "w")
		h.ok(err)
		_, replayed, err := h.s.AddArtifact(h.ctx, file(task.ID, h.lease(task.ID, "w").ID, "out/0", "s"))
		h.ok(err)
		same(h, "the next attempt's file is a repeat", replayed, false)
	},
	"events are removed once they are in transcripts": func(h *harness) {
		h.worker("w", 8)
		h.due(0)
		task := h.failed("w")
		h.due(1)
		h.advance(2 * time.Hour)
		old := contract.RemoveRequest{OlderThan: time.Hour, Archived: true}
		last := h.lastEvent(task.ID)
		did, err := h.s.RemoveEvents(h.ctx, old)
		h.ok(err)
		same(h, "removed before", did.Events, 0)
		ids, _, _, err := h.s.UnarchivedStreams(h.ctx, old)
		h.ok(err)
		same(h, "not in transcripts", len(ids), 1)
		n := file(task.ID, "", "transcript/1.jsonl.gz", "s")
		n.Epoch, n.Type = 1, bloom.ArtifactRunLog
		add := contract.AddRunLogs{TaskID: task.ID, To: last, Artifacts: []contract.NewArtifact{n}}
		h.ok(h.s.AddRunLogs(h.ctx, add))
		h.ok(h.s.AddRunLogs(h.ctx, add)) // a repetition, which adds nothing
		again := add
		again.Artifacts = slices.Clone(add.Artifacts)
		again.Artifacts[0].ID = newID()
		h.refused(h.s.AddRunLogs(h.ctx, again), bloom.Conflict(""))
		upto, err := h.s.ArchivedTo(h.ctx, task.ID)
		h.ok(err)
		same(h, "transcribed to", upto, last)
		h.due(0)
		ids, _, _, err = h.s.UnarchivedStreams(h.ctx, old)
		h.ok(err)
		same(h, "not in transcripts", len(ids), 0)
		did, err = h.s.RemoveEvents(h.ctx, old)
		h.ok(err)
		same(h, "removed", did.Events, last)
		// The next run continues the numbers, and its events are in no transcript.
		_, err = h.s.Requeue(h.ctx, task.ID, "me")
		h.ok(err)
		h.ok(h.s.AddRunLogs(h.ctx, add)) // a repetition after the requeue
		again.After = last
		h.refused(h.s.AddRunLogs(h.ctx, again), bloom.Conflict(""))
		h.finish(task.ID, "w")
		h.due(1)
		h.advance(2 * time.Hour)
		did, err = h.s.RemoveEvents(h.ctx, old)
		h.ok(err)
		same(h, "removed of the next run", did.Events, 0)
		_, err = h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: time.Hour})
		h.ok(err)
		h.due(0)
	},
	"a file at a transcript's path does not prevent the transcript": func(h *harness) {
		h.worker("w", 8)
		task := h.create()
		lease := h.lease(task.ID, "w")
		path := bloom.RunLogPath(1, 4)
		taken, _, err := h.s.AddArtifact(h.ctx, file(task.ID, lease.ID, path, "s"))
		h.ok(err)
		h.complete(success(task.ID, lease.ID, "text"))
		n := file(task.ID, "", path, "t")
		n.Epoch, n.Type = 1, bloom.ArtifactRunLog
		h.ok(h.s.AddRunLogs(h.ctx, contract.AddRunLogs{TaskID: task.ID, To: h.lastEvent(task.ID), Artifacts: []contract.NewArtifact{n}}))
		h.ok(h.s.AddRunLogs(h.ctx, contract.AddRunLogs{TaskID: task.ID, To: h.lastEvent(task.ID), Artifacts: []contract.NewArtifact{n}}))
		h.due(0)
		a, err := h.s.Artifact(h.ctx, n.ID)
		h.ok(err)
		if first, last, ok := a.RunLogRange(); !ok || first != 1 || last != 4 || a.Path == path {
			h.Errorf("the transcript is at %s", a.Path)
		}
		was, err := h.s.Artifact(h.ctx, taken.ID)
		h.ok(err)
		same(h, "the file's path", was.Path, path)
	},
	"due transcripts are listed page by page": func(h *harness) {
		h.worker("w", 8)
		var want, got []string
		for range 5 {
			want = append(want, h.failed("w").ID)
		}
		for after := int64(0); ; {
			page, next, err := h.s.DueRunLogs(h.ctx, after, 2)
			h.ok(err)
			if got = append(got, page...); len(page) < 2 {
				break
			}
			after = next
		}
		if !slices.Equal(got, want) {
			h.Errorf("listed %v, want %v", got, want)
		}
	},
}

// due checks the number of tasks whose events are due for transcripts.
func (h *harness) due(want int) {
	h.Helper()
	ids, _, err := h.s.DueRunLogs(h.ctx, 0, 10)
	h.ok(err)
	same(h, "due transcripts", len(ids), want)
}

func (h *harness) lastEvent(taskID string) int64 {
	h.Helper()
	events, err := h.s.Events(h.ctx, taskID, 0, 1000)
	h.ok(err)
	return events[len(events)-1].Seq
}
