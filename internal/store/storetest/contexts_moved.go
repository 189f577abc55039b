package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var movedContextTests = map[string]func(*harness){
	"completions determine the transcript": func(h *harness) {
		h.worker("w", 4)
		turn := func(after string, u bloom.TranscriptUpdate) bloom.Task {
			h.Helper()
			task := h.create(inContext("talk"))
			l := h.lease(task.ID, "w")
			r := success(task.ID, l.ID, "done")
			u.SessionID, u.After, r.Completion.Transcript, r.ContextID = "s", after, &u, "talk"
			h.complete(r)
			return task
		}
		part := func(url string) []bloom.TranscriptPart { return []bloom.TranscriptPart{{URL: url, Size: 9}} }
		turn("", bloom.TranscriptUpdate{Size: 10, SHA256: "ten", Parts: part("file:a")})
		turn("ten", bloom.TranscriptUpdate{Size: 20, SHA256: "twenty", Parts: part("file:b")})
		refused := turn("ten", bloom.TranscriptUpdate{Size: 30, SHA256: "thirty", Parts: part("file:c")})
		got, err := h.s.Transcript(h.ctx, "talk")
		h.ok(err)
		same(h, "transcript", string(storable.MustJSON(got)), string(storable.MustJSON(contract.Transcript{
			SessionID: "s", Size: 20, SHA256: "twenty", Parts: append(part("file:a"), part("file:b")...),
		})))
		same(h, "the refused turn says so", slices.Contains(h.eventTypes(refused.ID), bloom.EventTranscript), true)
		for _, base := range []string{"", "ten"} { // another whole transcript, begun before the last turn was completed
			refused = turn("", bloom.TranscriptUpdate{Size: 40, SHA256: "forty", Base: &base, Parts: part("file:whole after " + base)})
			same(h, "a whole one that is late says so", slices.Contains(h.eventTypes(refused.ID), bloom.EventTranscript), true)
		}
		x := h.context("talk")
		same(h, "session and size", deref(x.SessionID)+fmt.Sprint(x.Size), "s20")
		late := h.create(inContext("talk"))
		lease := h.lease(late.ID, "w")
		h.advance(time.Second)
		turn("", bloom.TranscriptUpdate{Size: 6, SHA256: "six", Base: new("twenty"), Parts: part("file:e")})
		r := success(late.ID, lease.ID, "done")
		r.ContextID, r.Completion.Transcript = "talk", &bloom.TranscriptUpdate{SessionID: "old", Size: 7, SHA256: "seven", Parts: part("file:late")}
		h.complete(r)
		same(h, "one without a base that began before the last turn was completed says so", slices.Contains(h.eventTypes(late.ID), bloom.EventTranscript), true)
		h.advance(time.Second)
		turn("", bloom.TranscriptUpdate{Size: 5, SHA256: "five", Parts: part("file:d")}) // of a worker that sends no base
		in, err := h.s.TranscriptIn(h.ctx, contract.TranscriptFolder("talk"))
		h.ok(err)
		same(h, "in its folder", in.SHA256, "five")
		same(h, "removed", h.toDelete(), "[file:c file:whole after  file:whole after ten file:a file:b file:late file:e]")
	},
	"completions determine the working folder": func(h *harness) {
		h.worker("w", 4)
		part := func(url string) []bloom.TranscriptPart { return []bloom.TranscriptPart{{URL: url, Size: 9}} }
		var warnings []bloom.Warning
		onlyOn := func() string {
			got, err := h.s.Transcript(h.ctx, "talk")
			h.ok(err)
			return got.Workspace.OnlyOn
		}
		turn := func(tr *bloom.TranscriptUpdate, ws *bloom.WorkspaceUpdate) bloom.Task {
			h.Helper()
			task := h.create(inContext("talk"), func(n *contract.NewTask) { n.Spec.Policy.Workspace = bloom.WorkspaceContext })
			l := h.lease(task.ID, "w")
			r := success(task.ID, l.ID, "done")
			r.Completion.Transcript, r.Completion.Workspace, r.ContextID = tr, ws, "talk"
			r.Completion.Metrics.Warnings = warnings
			h.complete(r)
			read, err := h.s.Task(h.ctx, task.ID)
			h.ok(err)
			same(h, "the task's policy", read.Policy.Workspace, bloom.WorkspaceContext)
			return task
		}
		kept := func() string {
			got, err := h.s.Transcript(h.ctx, "talk")
			h.ok(err)
			return fmt.Sprintf("%s %s %s", got.SessionID, got.SHA256, got.Workspace.SHA256)
		}
		turn(nil, &bloom.WorkspaceUpdate{Size: 10, SHA256: "w1", Parts: part("file:a")})
		same(h, "a folder without a transcript", kept(), "  w1")
		same(h, "no session", h.context("talk").SessionID, (*string)(nil))
		turn(&bloom.TranscriptUpdate{SessionID: "s", Size: 1, SHA256: "t1", Parts: part("file:b")}, nil)
		same(h, "a transcript besides", kept(), "s t1 w1")
		turn(&bloom.TranscriptUpdate{SessionID: "s", Size: 2, SHA256: "t2", After: "t1", Parts: part("file:c")}, &bloom.WorkspaceUpdate{Size: 20, SHA256: "w2", After: "w1", Parts: part("file:d")})
		same(h, "both", kept(), "s t2 w2")
		refused := turn(nil, &bloom.WorkspaceUpdate{Size: 30, SHA256: "w3", After: "w1", Parts: part("file:e")})
		same(h, "an older one is refused", kept(), "s t2 w2")
		same(h, "and says so", slices.Contains(h.eventTypes(refused.ID), bloom.EventWorkspace), true)
		same(h, "its size", h.context("talk").Workspace, int64(20))
		same(h, "removed", h.toDelete(), "[file:a file:e]")
		warnings = []bloom.Warning{{Code: bloom.NotKept, Text: "it could not be uploaded"}}
		turn(nil, nil)
		same(h, "the last one that was uploaded", kept(), "s t2 w2")
		same(h, "and where the folder is", onlyOn(), "w")
		warnings = nil
		turn(nil, &bloom.WorkspaceUpdate{Size: 40, SHA256: "w4", After: "w2", Parts: part("file:d")})
		same(h, "after an upload", kept()+onlyOn(), "s t2 w4")
		talkOnlyOn := func() string {
			got, err := h.s.Transcript(h.ctx, "talk")
			h.ok(err)
			return got.Workspace.TalkOnlyOn
		}
		warnings = []bloom.Warning{{Code: bloom.TalkNotKept, Text: "it could not be uploaded"}}
		turn(nil, nil)
		same(h, "the transcript that was uploaded, and where the next one is", kept()+" "+talkOnlyOn(), "s t2 w4 w")
		warnings = nil
		turn(nil, &bloom.WorkspaceUpdate{Size: 50, SHA256: "w5", After: "w4", Parts: part("file:d")})
		same(h, "a folder changes nothing", talkOnlyOn(), "w")
		turn(&bloom.TranscriptUpdate{SessionID: "s", Size: 3, SHA256: "t3", After: "t2", Parts: part("file:f")}, nil)
		same(h, "after an upload of the transcript", kept()+talkOnlyOn(), "s t3 w5")
		h.ok(h.s.ForgetContext(h.ctx, "talk", "me"))
		same(h, "removed with the context", h.toDelete(), "[file:a file:e file:b file:c file:f file:d]")
	},
	"contexts are due to be moved while a part of them is in a folder": func(h *harness) {
		h.worker("w", 4)
		waits := func(when string, want ...string) {
			h.Helper()
			n, err := h.s.WaitingContent(h.ctx)
			h.ok(err)
			same(h, "what waits "+when, n, int64(len(want)))
			list, err := h.s.Transcripts(h.ctx, "", 10, true)
			h.ok(err)
			got := []string{}
			for _, t := range list {
				got = append(got, t.ContextID)
			}
			if !slices.Equal(got, want) {
				h.Errorf("%s %v wait, want %v", when, got, want)
			}
		}
		waits("at first")
		h.spoken("a", "file:transcripts/a")
		h.spoken("b", "minio://bucket/transcripts/b")
		task := h.create(inContext("c"))
		r := success(task.ID, h.lease(task.ID, "w").ID, "done")
		r.ContextID, r.Completion.Workspace = "c", &bloom.WorkspaceUpdate{Size: 1, SHA256: "one", Parts: []bloom.TranscriptPart{{URL: "file:transcripts/c"}}}
		h.complete(r)
		waits("of a transcript and a working folder", "a", "c")
		h.ok(h.s.MovePart(h.ctx, "a", "file:transcripts/a", "minio://bucket/transcripts/a"))
		waits("when one was moved", "c")
		h.ok(h.s.ForgetContext(h.ctx, "c", "me"))
		waits("when the other one is forgotten")
	},
}
