package announce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestAnUnsupportedCommandFailsWithAReason(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	var log bytes.Buffer
	cfg := quiet(agent)
	cfg.Interval, cfg.Log = time.Minute, slog.New(slog.NewTextHandler(&log, nil))
	drained := make(chan bool, 9)
	cfg.OnDrain = func(drain bool) { drained <- drain }
	stop := run(t, cfg)
	<-drained // it is registered
	ask := func(method, path, body string) (int, []byte) {
		status, answer, _ := admin.Do(t.Context(), method, path, []byte(body))
		return status, answer
	}
	ask("POST", "/projects", `{"name":"p"}`)
	for range 2 { // after its report it waits for the next one
		var order struct {
			Status string `json:"status"`
			JobID  string `json:"job_id"`
		}
		until(t, func() bool {
			s, answer := ask("POST", "/sync/pull", `{"project":"p","agent":"w"}`)
			return s == 200 && json.Unmarshal(answer, &order) == nil && order.Status == "queued"
		})
		var job []byte
		until(t, func() bool {
			_, job = ask("GET", "/jobs/"+order.JobID, "")
			return bytes.Contains(job, []byte(`"status":"failed"`))
		})
		if !bytes.Contains(job, []byte("Nothing was pushed or pulled")) {
			t.Errorf("the job is %s", job)
		}
	}
	stop()
	if n := strings.Count(log.String(), "membridge's command failed"); n != 2 {
		t.Errorf("the log says it %d times: %s", n, log.String())
	}
}

// Membridge refuses longer reports, and a worker would repeat them in each heartbeat.
func TestAReportThatIsTooLongIsCut(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	cfg := quiet(agent)
	registered := make(chan bool, 9)
	cfg.OnDrain = func(drain bool) { registered <- drain }
	cfg.Execute = func(context.Context, mbclient.Command) mbclient.Report {
		return mbclient.Report{Status: announce.Failed, Detail: "because " + strings.Repeat("é", 1<<16), Stderr: strings.Repeat("\xff", 1<<20)}
	}
	stop := run(t, cfg)
	defer stop()
	<-registered
	var order struct {
		JobID string `json:"job_id"`
	}
	_, _, _ = admin.Do(t.Context(), "POST", "/projects", []byte(`{"name":"p"}`))
	until(t, func() bool {
		status, answer, _ := admin.Do(t.Context(), "POST", "/sync/push", []byte(`{"project":"p","agent":"w"}`))
		return status == 200 && json.Unmarshal(answer, &order) == nil
	})
	until(t, func() bool {
		_, job, _ := admin.Do(t.Context(), "GET", "/jobs/"+order.JobID, nil)
		return bytes.Contains(job, []byte(`"status":"failed"`)) && bytes.Contains(job, []byte("because é"))
	})
}

// A command that takes longer than a heartbeat is held meanwhile, carried out once, and
// reported as soon as it has ended.
func TestACommandIsCarriedOutOnceAndReportedAtOnce(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	cfg := quiet(agent)
	began, goOn := make(chan mbclient.Command, 9), make(chan struct{})
	cfg.Execute = func(ctx context.Context, c mbclient.Command) mbclient.Report {
		began <- c
		select {
		case <-goOn:
		case <-ctx.Done():
			return mbclient.Report{Status: announce.Failed, Detail: "stopped"}
		}
		code := 0
		return mbclient.Report{Status: announce.Completed, Detail: "moved", Stdout: "line", ReturnCode: &code}
	}
	heartbeats := make(chan struct{}, 999)
	cfg.Heartbeat = func() mbclient.Heartbeat { heartbeats <- struct{}{}; return mbclient.Heartbeat{} }
	stop := run(t, cfg)
	<-heartbeats
	order := func() (job string) {
		_, _, _ = admin.Do(t.Context(), "POST", "/projects", []byte(`{"name":"p"}`))
		until(t, func() bool {
			var out struct {
				JobID string `json:"job_id"`
			}
			status, answer, _ := admin.Do(t.Context(), "POST", "/sync/push", []byte(`{"project":"p","agent":"w"}`))
			job = ""
			if status == 200 && json.Unmarshal(answer, &out) == nil {
				job = out.JobID
			}
			return job != ""
		})
		return job
	}
	state := func(job string) string {
		_, answer, _ := admin.Do(t.Context(), "GET", "/jobs/"+job, nil)
		return string(answer)
	}
	job := order()
	if c := <-began; c.ID != job || c.Type != "sync_push" || c.Project != "p" {
		t.Fatalf("carries out %+v", c)
	}
	for len(heartbeats) > 0 {
		<-heartbeats
	}
	for range 3 { // it is sent again only if it is not held
		<-heartbeats
	}
	close(goOn)
	until(t, func() bool { return strings.Contains(state(job), `"status":"completed"`) })
	if got := state(job); len(began) != 0 || !strings.Contains(got, `"detail":"moved"`) || !strings.Contains(got, `"stdout":"line"`) || !strings.Contains(got, `"returncode":0`) {
		t.Errorf("carried out %d times more; the job is %s", len(began), got)
	}
	goOn = make(chan struct{})
	job = order()
	<-began
	stop()
	if got := state(job); !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, "stopped") {
		t.Errorf("after the worker stopped the job is %s", got)
	}
}
