package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// fullOutage makes the outage realistic: 60 s in the middle of 200 completions.
const fullOutage = "BLOOM_TEST_FULL_OUTAGE"

func TestAnOutageOfTheObjectStorageLosesNothing(t *testing.T) {
	t.Parallel()
	tasks, long := 40, 3*time.Second
	if os.Getenv(fullOutage) != "" {
		tasks, long = 200, time.Minute
	}
	for name, fail := range map[string]struct{ begin, end func(*objectServer) }{
		"killed": {func(s *objectServer) { s.minio.Stop() }, func(s *objectServer) { s.minio.Start(s.t) }},
		"frozen": {func(s *objectServer) { s.minio.Freeze() }, func(s *objectServer) { s.minio.Thaw() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOutageServer(t)
			r := &outage{s: s, outputs: map[string]string{}}
			r.completions(0, tasks/4)
			fail.begin(s)
			ended := make(chan struct{})
			go func() { // as many during the outage as after it
				defer close(ended)
				r.spread(tasks/4, tasks, long)
			}()
			over := time.After(long)
			<-over
			fail.end(s)
			<-ended
			t.Logf("longest completion: %s", r.longest)
			s.settled()
			r.check(tasks)
		})
	}
}

// Movers of several servers, or of several commands, may move the same artifact: what one has moved
// stays in place, and the others must not delete it.
func TestMoversAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	const tasks = 24
	s := newOutageServer(t)
	r := &outage{s: s, outputs: map[string]string{}}
	s.minio.Stop()
	r.completions(0, tasks)
	s.minio.Start(t)
	var movers sync.WaitGroup
	for range 4 {
		movers.Go(func() {
			if did, err := s.api.MoveArtifacts(t.Context(), nil); err != nil || did.Failed > 0 {
				t.Errorf("move: %+v, %v", did, err)
			}
		})
	}
	movers.Wait()
	s.settled()
	r.check(tasks)
	if did, err := s.api.VerifyArtifacts(t.Context(), nil); err != nil || did.Missing+did.Differs > 0 {
		t.Errorf("verify: %+v, %v", did, err)
	}
}

// outage records what was completed.
type outage struct {
	s       *objectServer
	mu      sync.Mutex
	outputs map[string]string // by artifact
	longest time.Duration
}

func (r *outage) completions(from, to int) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := from; i < to; i++ {
		slots <- struct{}{}
		wg.Go(func() { r.one(i); <-slots })
	}
	wg.Wait()
}

// spread makes completions over a period.
func (r *outage) spread(from, to int, over time.Duration) {
	var wg sync.WaitGroup
	tick := time.NewTicker(over / time.Duration(to-from) * 9 / 10)
	defer tick.Stop()
	for i := from; i < to; i++ {
		wg.Go(func() { r.one(i) })
		<-tick.C
	}
	wg.Wait()
}

func (r *outage) one(i int) {
	task, lease := r.s.held()
	output := fmt.Sprintf("%d %s", i, strings.Repeat("output ", i%7*20_000)) // up to 840 KB
	began := time.Now()
	done, err := r.s.api.WithRetry(client.NoRetry).Complete(r.s.t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output})
	took := time.Since(began)
	if err != nil {
		r.s.t.Errorf("completion %d: %v", i, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs[done.Artifact.ID], r.longest = output, max(r.longest, took)
}

// settled waits until nothing is left to move.
func (s *objectServer) settled() {
	s.t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		waiting := 0
		for a, err := range s.api.AllArtifacts(s.t.Context(), bloom.ArtifactQuery{Page: bloom.Page{TextBytes: 1}}) {
			must(s.t, err)
			if a.URL == nil || !strings.HasPrefix(*a.URL, "minio://") {
				waiting++
			}
		}
		now, err := s.api.Health(s.t.Context())
		must(s.t, err)
		if waiting == 0 && now.Artifacts.Waiting != nil && *now.Artifacts.Waiting == 0 {
			return
		}
		if time.Now().After(limit) {
			s.t.Fatalf("%d artifacts were not moved", waiting)
		}
	}
}

// check verifies that every artifact is complete and that no other files exist.
func (r *outage) check(tasks int) {
	t, s := r.s.t, r.s
	t.Helper()
	if len(r.outputs) != tasks {
		t.Fatalf("%d artifacts of %d tasks", len(r.outputs), tasks)
	}
	for id, want := range r.outputs {
		got, err := s.api.ArtifactBytes(t.Context(), id)
		if err != nil || string(got) != want {
			t.Errorf("artifact %s has %d bytes, want %d: %v", id, len(got), len(want), err)
		}
	}
	named := map[string]bool{}
	for a, err := range s.api.AllArtifacts(t.Context(), bloom.ArtifactQuery{}) {
		must(t, err)
		sum := sha256.Sum256([]byte(r.outputs[a.ID]))
		if a.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("artifact %s has another digest", a.ID)
		}
		named[strings.TrimPrefix(*a.URL, "minio://"+s.bucket.Bucket+"/")] = true
	}
	bucket, err := objects.Open(s.bucket)
	must(t, err)
	defer bucket.Close()
	orphans := 0
	for object, err := range bucket.List(t.Context(), "") {
		must(t, err)
		if !named[object.Key] {
			orphans++ // uploads whose response was lost; the sweep removes them after a day
		}
		delete(named, object.Key)
	}
	if len(named) > 0 {
		t.Errorf("%d artifacts name nothing: %v", len(named), named)
	}
	t.Logf("%d artifacts, none dangling, %d uploads wait for the sweep", tasks, orphans)
	s.leavesNoFile(func(string) bool { return true })
}

// leavesNoFile waits until there is no such file in the artifacts' folder: a mover deletes one
// after its row names the new place.
func (s *objectServer) leavesNoFile(unwanted func(path string) bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		_ = fs.WalkDir(os.DirFS(app.ArtifactsDir(s.cfg.DataDir)), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && unwanted(path) {
				left = append(left, path)
			}
			return nil // what is deleted meanwhile is no error
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Errorf("left in the folder: %v", left)
			return
		}
	}
}
