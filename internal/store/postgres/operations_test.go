package postgres_test

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// tool returns the path of one of PostgreSQL's programs, in the server's version.
func tool(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Fatalf("%s is not installed beside the server", name)
	}
	sort.Strings(found)
	return found[len(found)-1]
}

// TestADumpIsRestored dumps the database while a server works, and continues in another database.
func TestADumpIsRestored(t *testing.T) {
	t.Parallel()
	from, to := pgtest.Start(t), pgtest.Start(t)
	old := open(t, from, nil)
	register(t, old, "w", 32)
	for range 20 {
		if err := storetest.Lifecycle(old, "context"); err != nil {
			t.Fatal(err)
		}
	}
	dump := filepath.Join(t.TempDir(), "bloom.dump")
	for _, args := range [][]string{
		{tool(t, "pg_dump"), "--format=custom", "--file=" + dump, from},
		{tool(t, "pg_restore"), "--exit-on-error", "--no-owner", "--dbname=" + to, dump},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, out)
		}
	}
	s := open(t, to, nil)
	if d := cmp.Diff(storetest.Look(t, old), storetest.Look(t, s)); d != "" {
		t.Errorf("(-before +restored):\n%.2000s", d)
	}
	if err := storetest.Lifecycle(s, "context"); err != nil {
		t.Error(err)
	}
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestAnOldServerIsRefused(t *testing.T) {
	t.Parallel()
	if err := postgres.Supported(140013, "14.13"); err == nil || !strings.Contains(err.Error(), "15 or newer") {
		t.Errorf("PostgreSQL 14: %v", err)
	}
	if err := postgres.Supported(150000, "15.0"); err != nil {
		t.Errorf("PostgreSQL 15: %v", err)
	}
}

// TestAPoolerIsRefused uses a server that answers like PgBouncer.
func TestAPoolerIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"})
				_ = b.Flush()
			}
			_ = c.Close()
		}
	}()
	_, err = postgres.Open(t.Context(), postgres.Config{URL: "postgres://u@" + l.Addr().String() + "/d?sslmode=disable"})
	if !errors.Is(err, postgres.ErrPooler) {
		t.Errorf("says %v", err)
	}
	_ = l.Close()
	<-ended
}

// TestAnUnreachableServerIsReported: writes wait for it no longer than configured, and fail with a
// message that is safe to show.
func TestAnUnreachableServerIsReported(t *testing.T) {
	t.Parallel()
	cut, url := startCutter(t, migrated.Start(t))
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	cut.rate.Store(1)
	if _, _, err := s.CreateTask(t.Context(), storetest.Plain("c")); !errors.Is(err, bloom.ErrUnavailable) {
		t.Errorf("a write says %v", err)
	}
	if _, err := s.Stats(t.Context()); !errors.Is(err, bloom.ErrUnavailable) {
		t.Errorf("a read says %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, bloom.ErrUnavailable) {
		t.Errorf("a ping says %v", err)
	}
	cut.rate.Store(0)
	n := storetest.Plain("c")
	for range 60 { // on a busy machine even a connection may take longer than this patience
		if _, _, err = s.CreateTask(t.Context(), n); !errors.Is(err, bloom.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		t.Errorf("after it is back: %v", err)
	}
}
