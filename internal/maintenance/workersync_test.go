package maintenance_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// plane is a control plane with scripted reports.
type plane struct {
	mu     sync.Mutex
	agents []maintenance.Agent
	err    error
	reads  int
}

func (p *plane) ReadAgents(context.Context) ([]maintenance.Agent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	return p.agents, p.err
}

func (p *plane) set(err error, agents ...maintenance.Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agents, p.err = agents, err
}

func agent(name string, status bloom.WorkerStatus, heartbeat int64) maintenance.Agent {
	return maintenance.Agent{HeartbeatAt: heartbeat, WorkerReport: contract.WorkerReport{Name: name, Status: status, Capabilities: &bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}}
}

func workerStatus(t *testing.T, s contract.Store, name string) bloom.WorkerStatus {
	t.Helper()
	w, _, err := s.Worker(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return w.Status
}

func TestAReportedWorkerIsAliveWhileItIsListedOrSendsHeartbeats(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	p := &plane{}
	sync, silent := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p}), maintenance.NewSilentWorkers(maintenance.SilentWorkersConfig{Store: s})
	// The control plane's clock may be wrong: only whether heartbeats continue counts.
	heartbeat, stopped := int64(99), int64(1)<<40
	for range 8 {
		heartbeat++
		p.set(nil, agent("posted", bloom.WorkerOnline, 0), agent("alive", bloom.WorkerOnline, heartbeat), agent("frozen", bloom.WorkerOnline, stopped))
		runOnce(t, sync)
		runOnce(t, silent)
		c.advance(10 * time.Second)
	}
	for name, want := range map[string]bloom.WorkerStatus{"posted": bloom.WorkerOnline, "alive": bloom.WorkerOnline, "frozen": bloom.WorkerOffline} {
		if got := workerStatus(t, s, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	p.set(nil, agent("frozen", bloom.WorkerOnline, stopped+1))
	runOnce(t, sync)
	if got := workerStatus(t, s, "frozen"); got != bloom.WorkerOnline {
		t.Errorf("one that sends heartbeats again is %s", got)
	}
	c.advance(bloom.OfflineAfter)
	runOnce(t, silent)
	if got := workerStatus(t, s, "posted"); got != bloom.WorkerOffline {
		t.Errorf("one that is named no more is %s", got)
	}
}

func TestReportsAndRegistrationsMeetInOneWorkerAndLeasesAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	l := leased(t, s) // by "w", which registered itself
	p := &plane{}
	gone := agent("w", bloom.WorkerOffline, 5)
	gone.AgentVersion = "7"
	p.set(nil, gone)
	sync := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p})
	if res := runOnce(t, sync); res.Changed != 1 {
		t.Fatalf("the report changed nothing: %+v", res)
	}
	all, err := s.Workers(t.Context())
	if err != nil || len(all) != 1 || all[0].AgentVersion != "7" {
		t.Fatalf("workers %+v, %v", all, err)
	}
	if status(t, s, l.TaskID) != bloom.TaskLeased {
		t.Error("a report touched a lease")
	}
	if err := s.RemoveWorker(t.Context(), "w", "somebody"); err != nil {
		t.Fatal(err)
	}
	if res := runOnce(t, sync); res.Changed != 0 {
		t.Error("a removed worker came back by hearsay")
	}
}

func TestTheControlPlanesDrainIsAdopted(t *testing.T) {
	t.Parallel()
	s := open(t, newClock())
	p := &plane{}
	// Each round is run by another process without earlier state.
	round := func(want bool, agents ...maintenance.Agent) {
		t.Helper()
		p.set(nil, agents...)
		runOnce(t, maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p}))
		if w, _, err := s.Worker(t.Context(), "a"); err != nil || w.Draining != want || !w.Capabilities.ClaudeCLI {
			t.Errorf("%+v, %v, want draining %v", w, err, want)
		}
	}
	says := func(drain bool) maintenance.Agent {
		a := agent("a", bloom.WorkerOnline, 0)
		a.Drain = drain
		return a
	}
	byHand := func(drain bool) {
		if _, err := s.DrainWorker(t.Context(), "a", drain, "somebody"); err != nil {
			t.Fatal(err)
		}
	}
	round(false, says(false))
	round(true, says(true))
	byHand(false)
	round(true, says(true)) // undrained at the control plane, not here
	round(false, says(false))
	byHand(true)
	round(true, says(false))
	round(true, says(true))
	byHand(false)
	round(true, says(true))
	round(false)            // deleted at the control plane
	round(true, says(true)) // and back
	round(false, says(false))
	if err := s.RemoveWorker(t.Context(), "a", "somebody"); err != nil {
		t.Fatal(err)
	}
	p.set(nil, says(true))
	runOnce(t, maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p}))
}

func TestAFailingControlPlaneHarmsNothingAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := open(t, newClock())
	p := &plane{}
	var log bytes.Buffer
	sync := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.set(nil, agent("a", bloom.WorkerOnline, 1))
	runOnce(t, sync)
	p.set(bloom.ErrUnavailable)
	for range 5 {
		if _, err := sync.RunOnce(t.Context()); err == nil {
			t.Fatal("a failure went unnoticed")
		}
	}
	if got := workerStatus(t, s, "a"); got != bloom.WorkerOnline {
		t.Errorf("the failure made a worker %s", got)
	}
	p.set(nil, agent("a", bloom.WorkerOnline, 2))
	runOnce(t, sync)
	if details := log.String(); strings.Count(details, "level=WARN") != 1 || strings.Count(details, "works again") != 1 || strings.Contains(details, "level=ERROR") {
		t.Errorf("it was audited as\n%s", details)
	}
}

func TestAThousandReportsComeInPiecesAndAllArrive(t *testing.T) {
	t.Parallel()
	s := open(t, newClock())
	p := &plane{}
	agents := make([]maintenance.Agent, 1001)
	for i := range agents {
		agents[i] = agent(fmt.Sprint("a", i), bloom.WorkerOnline, 0)
	}
	p.set(nil, agents...)
	sync := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p})
	if res := runOnce(t, sync); res.Changed != len(agents) {
		t.Errorf("%d of %d arrived", res.Changed, len(agents))
	}
	if res := runOnce(t, sync); res.Changed != 0 {
		t.Errorf("the same again changed %d", res.Changed)
	}
}

func TestOneReplicaSyncsAtATime(t *testing.T) {
	t.Parallel()
	s := open(t, newClock())
	p := &plane{}
	p.set(nil, agent("a", bloom.WorkerOnline, 0))
	mine := false
	sync := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: p}).OnlyLeader(func(context.Context) (bool, error) {
		return mine, nil
	})
	if res := runOnce(t, sync); res.Changed != 0 || p.reads != 0 {
		t.Errorf("it synced while another one does: %+v", res)
	}
	mine = true
	if res := runOnce(t, sync); res.Changed != 1 {
		t.Errorf("it did not sync alone: %+v", res)
	}
}

// hanging is a control plane that responds to nobody until it is replaced.
type hanging struct{ entered chan struct{} }

func (h *hanging) ReadAgents(ctx context.Context) ([]maintenance.Agent, error) {
	h.entered <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAnotherControlPlaneIsReadAtOnce(t *testing.T) {
	t.Parallel()
	h := &hanging{make(chan struct{})}
	l := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: open(t, newClock()), ControlPlane: h, Every: time.Hour})
	l.Start()
	defer l.Stop()
	for range 3 {
		<-h.entered // only another start of the loop can read the next one within the hour
		l.Restart()
	}
	<-h.entered
}
