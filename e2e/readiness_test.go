package e2e_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// migrationLock is the advisory lock under which servers migrate: "bloom_db".
const migrationLock = 0x626c6f6f6d5f6462

// TestReadinessFailsWhileTheServerCannotServe starts a server whose migrations have to wait,
// disconnects and reconnects its database, and stops it: /readyz always says whether requests
// should be sent here.
func TestReadinessFailsWhileTheServerCannotServe(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	link := newBalancer(t) // to the database
	h := newHarness(t)
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	direct := at.Host
	link.to([]string{direct})
	at.Host = link.address()
	migrating, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { migrating.Close(t.Context()) })
	if _, err := migrating.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		t.Fatal(err)
	}
	server := spawn(t, "server", h.env("RUNTIME_API_KEY="+adminKey, "DATABASE_URL="+at.String()), "server", "--data-dir", filepath.Join(h.dir, "server"),
		"--listen", h.reserve(), "--no-membridge", "--shutdown-delay", "1m")
	h.servers = append(h.servers, server)
	ready := func(status int, text string) func() bool {
		return func() bool {
			got, answer := readyz(t, h.url)
			return got == status && strings.Contains(answer, text)
		}
	}
	eventually(t, "a server that migrates is not ready", ready(503, `"status":"starting"`))
	if strings.Contains(server.out.String(), "listens at") {
		t.Error("the migrations did not wait")
	}
	if err := migrating.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a server that has migrated is ready", ready(200, `"status":"ok"`))
	link.to(nil)
	link.cut()
	eventually(t, "a server without its database is not ready", ready(503, `"status":"degraded"`))
	link.to([]string{direct})
	eventually(t, "a server that has its database again is ready", ready(200, `"status":"ok"`))
	server.signal(syscall.SIGTERM)
	eventually(t, "a server that stops is not ready", ready(503, `"status":"draining"`))
	server.kill() // otherwise it would wait for its shutdown delay
}

// readyz returns the status of a server's /readyz; 0 when it does not answer.
func readyz(t *testing.T, server string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}
