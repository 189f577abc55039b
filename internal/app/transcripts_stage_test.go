package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// everywhere runs a test on both databases, each with object storage and without.
func everywhere(t *testing.T, test func(t *testing.T, s *objectServer)) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgresql"} {
		for _, kind := range []string{"local", "s3"} {
			t.Run(database+" and "+kind, func(t *testing.T) {
				t.Parallel()
				var s *objectServer
				if kind == "s3" {
					s = newObjectServer(t)
					s.stop()
				} else {
					s = &objectServer{t: t, cfg: serverConfig(t)}
				}
				if database == "postgresql" {
					s.cfg.DatabaseURL = config.Secret(pgtest.Start(t))
				}
				test(t, s)
			})
		}
	}
}

// age makes all ended tasks older while no server runs.
func (s *objectServer) age(by time.Duration) {
	s.t.Helper()
	query := fmt.Sprintf(`UPDATE llm_tasks SET updated_at = updated_at - %[1]d, created_at = created_at - %[1]d`, by.Milliseconds())
	if url := string(s.cfg.DatabaseURL); url != "" {
		c, err := pgx.Connect(s.t.Context(), url)
		must(s.t, err)
		defer func() { _ = c.Close(context.Background()) }()
		_, err = c.Exec(s.t.Context(), query)
		must(s.t, err)
		return
	}
	db, err := sql.Open("sqlite", filepath.Join(s.cfg.DataDir, app.DatabaseFile))
	must(s.t, err)
	defer db.Close()
	_, err = db.ExecContext(s.t.Context(), query)
	must(s.t, err)
}

// events counts a task's events in the database while no server runs.
func (s *objectServer) events() (n int) {
	s.t.Helper()
	const query = `SELECT count(*) FROM task_events`
	if url := string(s.cfg.DatabaseURL); url != "" {
		c, err := pgx.Connect(s.t.Context(), url)
		must(s.t, err)
		defer func() { _ = c.Close(context.Background()) }()
		must(s.t, c.QueryRow(s.t.Context(), query).Scan(&n))
		return n
	}
	db, err := sql.Open("sqlite", filepath.Join(s.cfg.DataDir, app.DatabaseFile))
	must(s.t, err)
	defer db.Close()
	must(s.t, db.QueryRowContext(s.t.Context(), query).Scan(&n))
	return n
}

// stream returns a task's stream after an event, as lines and as an SSE client sees it.
func (s *objectServer) stream(task string, after int64) (lines []string) {
	s.t.Helper()
	read := func(accept string) []string {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/api/runtime/llm-tasks/"+task+"/events", nil)
		must(s.t, err)
		req.Header.Set("Accept", accept)
		if after > 0 {
			req.Header.Set("Last-Event-ID", fmt.Sprint(after))
		}
		res, body := fetch(s.t, req)
		if res.StatusCode != 200 && res.StatusCode != 204 {
			s.t.Fatalf("the stream answers %d %s", res.StatusCode, body)
		}
		var all []string
		for line := range strings.Lines(body) {
			data, sse := strings.CutPrefix(line, "data: ")
			if line = strings.TrimSpace(data); line != "" && (sse || accept != "text/event-stream") {
				all = append(all, line)
			}
		}
		return all
	}
	lines = read("application/x-ndjson")
	if sse := read("text/event-stream"); !slices.Equal(sse, lines) {
		s.t.Errorf("after %d: %d events by SSE, %d lines", after, len(sse), len(lines))
	}
	return lines
}

// run leases a task, adds events and completes it.
func (s *objectServer) run(task string, events int, outcome bloom.Outcome) {
	s.t.Helper()
	s.register()
	l, err := s.api.Lease(s.t.Context(), task, client.LeaseOptions{WorkerID: "w"})
	must(s.t, err)
	var batch []bloom.WorkerEvent
	for i := range events {
		batch = append(batch, bloom.WorkerEvent{Seq: int64(i + 1), Type: "text", At: 1, Data: storable.MustJSON(map[string]string{"text": strings.Repeat("<äöü> ", i%400)})})
	}
	must(s.t, s.api.AppendEvents(s.t.Context(), task, l.Lease.ID, batch))
	c := bloom.Completion{LeaseID: l.Lease.ID, Status: outcome, Output: new("out"), ErrorMessage: new("no")}
	if outcome == bloom.OutcomeSuccess {
		c.ErrorMessage = nil
	}
	_, err = s.api.Complete(s.t.Context(), task, c)
	must(s.t, err)
}

// transcripts returns the lines of all transcripts of a task, by its artifacts in the order of
// their creation.
func (s *objectServer) transcripts(task string) (runs [][]string) {
	s.t.Helper()
	list, _, err := s.api.Artifacts(s.t.Context(), bloom.ArtifactQuery{TaskID: task})
	must(s.t, err)
	slices.Reverse(list)
	for _, a := range list {
		if a.Type != bloom.ArtifactRunLog {
			continue
		}
		raw, err := s.api.ArtifactBytes(s.t.Context(), a.ID)
		must(s.t, err)
		zip, err := gzip.NewReader(bytes.NewReader(raw))
		must(s.t, err)
		var lines []string
		for scan := bufio.NewScanner(zip); scan.Scan(); {
			lines = append(lines, scan.Text())
		}
		if a.MediaType != "application/gzip" || !strings.HasSuffix(a.FileName(), ".jsonl.gz") {
			s.t.Errorf("the transcript is %+v", a)
		}
		runs = append(runs, lines)
	}
	return runs
}

// removed waits until retention has removed a task's events.
func (s *objectServer) removed(string) {
	s.t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, _, err := s.api.Audit(s.t.Context(), bloom.AuditQuery{Action: audit.ActionEventsRemoved})
		must(s.t, err)
		s.removals = max(s.removals, 0)
		if len(list) > s.removals {
			s.removals = len(list)
			return
		}
		if time.Now().After(limit) {
			s.t.Fatal("no events were removed")
		}
	}
}
