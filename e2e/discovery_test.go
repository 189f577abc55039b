package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// TestAWorkerNeedsOnlyMembridgesAddress starts the worker first, before the other two.
func TestAWorkerNeedsOnlyMembridgesAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.bridge()
	file(t, h.gate("open"), "")
	w := h.stubWorker("early", h.gate("open"), "--membridge-url", b.url)
	w.says("waiting for membridge to report the runtime's address")
	w.says("membridge does not answer")

	h.reach()
	plane := b.start("--runtime-url", h.url)
	w.says("membridge reported the runtime's address")
	if w.ended() {
		t.Fatal("the worker ended because the runtime is not there")
	}
	eventually(t, "it is not called online while nobody can give it work", func() bool { return b.knows(t, "early", bloom.WorkerUnknown) })
	b.serveFor("--membridge-sync-interval", "500ms")
	h.await(t, h.submit(t, spec("first")).ID).succeeded("pong")
	eventually(t, "it is online", func() bool { return b.knows(t, "early", bloom.WorkerOnline) })

	// After it was deleted it registers again by itself, and so it does after membridge was down.
	if status, body := b.ask(t, "DELETE", "/agents/early", ""); status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", status, body)
	}
	eventually(t, "it registered again", func() bool { return b.knows(t, "early", bloom.WorkerOnline) })
	plane.kill()
	h.await(t, h.submit(t, spec("without membridge")).ID).succeeded("pong")
	b.start("--runtime-url", h.url)
	w.says("membridge answers again")

	// Drained at membridge, it claims nothing until it is undrained there.
	if status, body := b.ask(t, "POST", "/agents/early/drain", ""); status != http.StatusOK {
		t.Fatalf("drain: %d %s", status, body)
	}
	eventually(t, "the runtime shows that it takes nothing", func() bool {
		now, ok := h.worker(t, "early")
		return ok && now.Draining && now.Capabilities.ClaudeCLI
	})
	waiting := h.submit(t, spec("drained"))
	if status, body := h.raw(t, "POST", "/llm-tasks/"+waiting.ID+"/lease", `{}`); status != http.StatusServiceUnavailable {
		t.Errorf("lease to a drained worker: %d %s", status, body)
	}
	if status, body := b.ask(t, "POST", "/agents/early/drain", `{"drain":false}`); status != http.StatusOK {
		t.Fatalf("drain no more: %d %s", status, body)
	}
	h.await(t, waiting.ID).succeeded("pong")

	// Undraining at the runtime does not change membridge's drain, and a restart of the worker
	// changes neither: each is undrained where it was drained.
	drains := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("draining is %v", want), func() bool {
			now, ok := h.worker(t, "early")
			return ok && now.Draining == want
		})
	}
	there := func(drain bool) {
		t.Helper()
		if status, body := b.ask(t, "POST", "/agents/early/drain", fmt.Sprintf(`{"drain":%v}`, drain)); status != http.StatusOK {
			t.Fatalf("drain: %d %s", status, body)
		}
		drains(drain)
	}
	here := func(drain, want bool) {
		t.Helper()
		if now, err := h.api.DrainWorker(t.Context(), "early", drain); err != nil || now.Draining != want {
			t.Fatalf("%+v, %v, want draining %v", now, err, want)
		}
	}
	there(true)
	here(false, true)
	w.kill()
	w = h.stubWorker("early", h.gate("open"), "--membridge-url", b.url)
	w.says("registered with membridge")
	w.says("drained at the control plane")
	drains(true)
	later := h.submit(t, spec("after the restart"))
	there(false)
	h.await(t, later.ID).succeeded("pong")
	here(true, true)
	if status, body := b.ask(t, "POST", "/agents/early/drain", `{"drain":false}`); status != http.StatusOK {
		t.Fatalf("undrain: %d %s", status, body)
	}
	drains(true)
	here(false, false)

	// Stopped in order, it reports its stop to both.
	h.stop(w)
	if now, ok := h.worker(t, "early"); !b.knows(t, "early", bloom.WorkerOffline) || !ok || now.Status != bloom.WorkerOffline {
		t.Errorf("after its end the runtime shows %s", storable.MustJSON(now))
	}
}

// TestAWorkerNeedsOnlyTheRuntimesAddress finds membridge through the runtime.
func TestAWorkerNeedsOnlyTheRuntimesAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.bridge()
	b.serveFor("--membridge-sync-interval", "500ms")
	file(t, h.gate("open"), "")
	w := h.stubWorker("plain", h.gate("open"), "--runtime-url", h.url)
	h.await(t, h.submit(t, spec("before membridge")).ID).succeeded("pong")
	b.start()
	eventually(t, "membridge knows the worker", func() bool { return b.knows(t, "plain", bloom.WorkerOnline) })
	w.says("the runtime reported membridge's address")
	h.await(t, h.submit(t, spec("after")).ID).succeeded("pong")
}
