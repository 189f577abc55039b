package worker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerReportsItsLastLogLines(t *testing.T) {
	h := newHarness(t)
	tail := worker.NewTail("the-workers-own-secret")
	var log *slog.Logger
	l := h.start(func(c *worker.Config) {
		c.Tail, c.Logger = tail, tail.Logger(c.Logger)
		log = c.Logger
		for range 200 {
			log.Info("an early line")
		}
		log.With("task_id", "t1").WithGroup("g").Warn("a secret: the-workers-own-secret", "key", "blm_abcdefghijklmnop_qwertz", "provider", "sk-ant-api03-abcdefgh", "long", strings.Repeat("ї", 1000))
	})
	h.logs.await(t, "registered")
	task := h.rt.Submit("ctx", "do it")
	h.runner.next(t).end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
	log.Error("the last word")
	l.w.Stop()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	logs, err := h.rt.Store.WorkerLogs(t.Context(), "node")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(logs.Lines); n != bloom.MaxLogLines || logs.UpdatedAt == 0 {
		t.Fatalf("%d lines at %d", n, logs.UpdatedAt)
	}
	found := false
	for _, l := range logs.Lines {
		if strings.Contains(l.Text, "secret:") {
			found = l.Level == "WARN" && strings.HasPrefix(l.Text, "a secret: **** task_id=t1 g.key=**** g.provider=**** g.long=ї") && len(l.Text) <= bloom.MaxLogLine
		}
		if time.Since(time.UnixMilli(l.At)) > time.Hour || l.InstanceID == "" || strings.Contains(l.Text, "blm_") {
			t.Errorf("reported as %+v", l)
		}
	}
	if all := string(storable.MustJSON(logs)); !found || !strings.Contains(all, "the last word") {
		t.Errorf("reported: %s", all)
	}
}
