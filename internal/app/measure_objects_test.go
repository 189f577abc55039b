package app_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// measureObjects enables the measurements, which take minutes.
const measureObjects = "BLOOM_TEST_MEASURE_OBJECTS"

// TestMeasureObjectStorage measures completions with object storage and without.
func TestMeasureObjectStorage(t *testing.T) {
	if os.Getenv(measureObjects) == "" {
		t.Skip(measureObjects + " is not set")
	}
	s := newOutageServer(t)
	with := s.cfg.ObjectStorage
	for round := range 3 {
		for _, kind := range []string{"local", "s3"} {
			s.stop()
			if s.cfg.MinioEndpoint = ""; kind == "s3" {
				s.cfg.ObjectStorage = with
			}
			s.start()
			for _, size := range []int{4 << 10, 200 << 10, 1 << 20} {
				measure(s, fmt.Sprintf("round %d %5s %4d KiB", round, kind, size>>10), strings.Repeat("x", size))
			}
		}
	}
}

func measure(s *objectServer, name, output string) {
	const n = 30 // no more than the worker's slots
	type held struct{ task, lease string }
	all := make([]held, n)
	for i := range all {
		all[i].task, all[i].lease = s.held()
	}
	complete := func(h held) time.Duration {
		began := time.Now()
		_, err := s.api.Complete(s.t.Context(), h.task, bloom.Completion{LeaseID: h.lease, Status: bloom.OutcomeSuccess, Output: &output})
		if err != nil {
			s.t.Error(err)
		}
		return time.Since(began)
	}
	var took []time.Duration
	for i := range n / 2 {
		took = append(took, complete(all[i]))
	}
	slices.Sort(took)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := n/2 + w; i < n; i += 6 {
				complete(all[i])
			}
		})
	}
	wg.Wait()
	rate := float64(n/2) / time.Since(began).Seconds()
	s.t.Logf("%s: one by one p50 %s p90 %s; six at once %.0f/s, %.1f MiB/s", name, took[len(took)/2].Round(100*time.Microsecond), took[len(took)*9/10].Round(100*time.Microsecond),
		rate, rate*float64(len(output))/(1<<20))
}

// TestAGigabyteTakesLittleMemory uploads a file of 1 GiB as a worker does, first while the storage
// is unavailable, so that it is moved, too, then serves and verifies it.
func TestAGigabyteTakesLittleMemory(t *testing.T) {
	if os.Getenv(measureObjects) == "" {
		t.Skip(measureObjects + " is not set")
	}
	const size = 1 << 30
	s := newOutageServer(t)
	s.stop()
	s.cfg.ArtifactLimitMiB = 1024
	s.start()
	file, err := os.Create(filepath.Join(t.TempDir(), "big"))
	must(t, err)
	defer file.Close()
	must(t, file.Truncate(size))
	must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets the peak
	before := peak(t)
	task, lease := s.held()
	put := func(name string) bloom.Artifact {
		began := time.Now()
		a, err := s.api.PutFile(t.Context(), task, lease, client.File{Path: name}, file, size)
		must(t, err)
		t.Logf("%s: uploaded to %.6s in %s", name, *a.URL, time.Since(began).Round(time.Millisecond))
		return a
	}
	s.minio.Stop()
	put("while it is down")
	s.minio.Start(t)
	began := time.Now()
	s.settled()
	t.Logf("moved in %s", time.Since(began).Round(time.Millisecond))
	content, _, err := s.api.ArtifactContent(t.Context(), put("big").ID)
	must(t, err)
	began = time.Now()
	n, err := io.Copy(io.Discard, content)
	must(t, err)
	must(t, content.Close())
	t.Logf("read %d bytes in %s", n, time.Since(began).Round(time.Millisecond))
	did, err := s.api.VerifyArtifacts(t.Context(), nil)
	if err != nil || did.Defects() > 0 || did.Bytes < 2*size {
		t.Errorf("verified %+v, %v", did, err)
	}
	after := peak(t)
	t.Logf("VmHWM of server and client in one process: %d MiB before, %d MiB after", before>>10, after>>10)
	if after-before > 192<<10 {
		t.Errorf("it took %d KiB more", after-before)
	}
}

// TestAnOutageAddsLittle measures the delay of completions while the storage is unavailable, killed
// or frozen: of the first one, and of the others.
func TestAnOutageAddsLittle(t *testing.T) {
	if os.Getenv(measureObjects) == "" {
		t.Skip(measureObjects + " is not set")
	}
	for name, fail := range map[string]func(*objectServer){"killed": func(s *objectServer) { s.minio.Stop() }, "frozen": func(s *objectServer) { s.minio.Freeze() }} {
		s := newOutageServer(t)
		one := func() time.Duration {
			task, lease := s.held()
			began := time.Now()
			_, err := s.api.Complete(t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: new(strings.Repeat("x", 200<<10))})
			must(t, err)
			return time.Since(began)
		}
		usual := one()
		fail(s)
		first, later := one(), one()
		t.Logf("%s: %s usually, %s for the first, %s for the next", name, usual.Round(time.Millisecond), first.Round(time.Millisecond), later.Round(time.Millisecond))
		if first-usual > 2*time.Second || later-usual > 2*time.Second {
			t.Errorf("%s: completions take %s and %s, usually %s", name, first, later, usual)
		}
	}
}

// peak returns this process's peak memory, in KiB.
func peak(t *testing.T) (kib int) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err := fmt.Sscanf(rest, "%d", &kib)
			must(t, err)
		}
	}
	return kib
}
