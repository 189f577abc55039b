package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// childEnv makes the test binary the process that gets killed; its value is the database URL and
// the file's path, separated by a comma.
const childEnv = "BLOOM_STORE_TEST_CHILD"

// runChild writes as fast as it can, and prints every write only after it was acknowledged.
func runChild() bool {
	url, path, ok := strings.Cut(os.Getenv(childEnv), ",")
	if !ok {
		return false
	}
	ctx := context.Background()
	s, err := store.Open(ctx, url, path, nil)
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	for i := range 8 {
		go func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("w%d-%d", i, n)
				if _, _, err := s.PutAgent(ctx, name, registry.AgentPatch{}, registry.Proof{}); err == nil {
					fmt.Println("ack", name)
				}
			}
		}()
	}
	select {}
}

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(t *testing.T) (url, path string){
		"sqlite":   func(t *testing.T) (string, string) { return "", filepath.Join(t.TempDir(), "membridge.db") },
		"postgres": func(t *testing.T) (string, string) { return pgtest.Start(t), "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, path := where(t)
			acked := map[string]bool{}
			for round := 1; round <= 3; round++ {
				killAfter(t, url, path, 100*round, acked)
				s, err := store.Open(t.Context(), url, path, nil)
				if err != nil {
					t.Fatalf("the file does not open after a kill: %v", err)
				}
				checkAll(t, s, acked)
				s.Close()
			}
		})
	}
}

// killAfter kills the writer after so many more acknowledged writes, and adds all acknowledged ones
// to acked.
func killAfter(t *testing.T, url, path string, writes int, acked map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+url+","+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "ack ")
		if !ok {
			t.Fatalf("the writer said: %s", lines.Text())
		}
		acked[name] = true
		if writes--; writes == 0 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
}

func checkAll(t *testing.T, s *store.Store, acked map[string]bool) {
	t.Helper()
	agents := must[[]registry.Agent](t)(s.Agents(t.Context(), "", 0))
	have := map[string]bool{}
	for _, a := range agents {
		have[a.Name] = true
	}
	for name := range acked {
		if !have[name] {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
}

func TestTwoReplicasShareOnePostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	replicas := make([]*store.Store, 3)
	var wg sync.WaitGroup
	for i := range replicas {
		// Concurrently, so that their migrations meet.
		wg.Go(func() {
			s, err := store.Open(t.Context(), url, "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			replicas[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	put(t, replicas[0], "a", registry.AgentPatch{})
	if _, err := replicas[1].Agent(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	for _, s := range replicas {
		s.Close()
	}
}

func TestOfTwoWhoTakeOneNewNameAtOnceOneGetsIt(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	var replicas [2]*store.Store
	for i := range replicas {
		replicas[i] = open(t, url, "", nil)
	}
	race := func(name string, write func(s *store.Store, by registry.Proof) error) {
		var refused, taken atomic.Int64
		var wg sync.WaitGroup
		for i := range 2 * len(replicas) {
			wg.Go(func() {
				switch err := write(replicas[i%2], registry.Proof{Token: registry.TokenDigest(fmt.Sprint("token ", i))}); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, registry.ErrOtherToken):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 1 || refused.Load() != 3 {
			t.Errorf("%s was taken %d times and refused %d times", name, taken.Load(), refused.Load())
		}
	}
	for i := range 50 {
		name := fmt.Sprint("n", i)
		race("the agent "+name, func(s *store.Store, by registry.Proof) error {
			_, _, err := s.PutAgent(t.Context(), name, registry.AgentPatch{}, by)
			return err
		})
		race("the node "+name, func(s *store.Store, by registry.Proof) error {
			_, err := s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: name, CanonicalID: "c", Proof: by})
			return err
		})
	}
}

func TestASecondProcessOnTheSameFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "membridge.db")
	first := open(t, "", path, nil)
	if _, err := store.Open(t.Context(), "", path, nil); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("second open: %v", err)
	}
	first.Close()
	open(t, "", path, nil)
}

func TestAnUnreadableAddressIsRefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mysql://u:s3cret@h/db", "postgres://u:s3cret@h:port/db"} {
		if _, err := store.Open(t.Context(), url, "", nil); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestWritesAfterCloseAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, "", filepath.Join(t.TempDir(), "membridge.db"), nil)
	s.Close()
	if _, _, err := s.PutAgent(t.Context(), "a", registry.AgentPatch{}, registry.Proof{}); err == nil {
		t.Error("a write after Close was acknowledged")
	}
}
