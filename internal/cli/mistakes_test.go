package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestMemoryAdviceNamesItsProject(t *testing.T) {
	t.Parallel()
	storage := miniotest.Start(t).Bucket()
	p := newPerson(t, nil)
	p.env["MINIO_ENDPOINT"], p.env["MINIO_BUCKET"] = "http://"+storage.Endpoint, storage.Bucket
	p.env["MINIO_ACCESS_KEY"], p.env["MINIO_SECRET_KEY"] = storage.AccessKey, storage.SecretKey
	p.env["CLAUDE_MEM_DB"] = filepath.Join(t.TempDir(), "claude-mem.db")
	observe(t, p.env["CLAUDE_MEM_DB"])
	wantRun(t, p.run("memory", "push", "--project", "garden", "--node", "vm"), 0, "pushed")
	wantRun(t, p.run("memory", "doctor", "--project", "garden", "--node", "vm"), 0, "bloom memory leadership --project garden --select vm")
	wantRun(t, p.run("memory", "push", "--project", "garden", "--node", "pi 4"), 3, "bloom memory leadership --project garden --select 'pi 4'")
}

func TestAdviceOnAServerThatIsNotReached(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	moved := httptest.NewServer(http.RedirectHandler("https://bloom.example/api/runtime/workers?limit=1", http.StatusPermanentRedirect))
	defer moved.Close()
	for name, c := range map[string]struct{ url, want string }{
		"private authority": {secure.URL, "--ca-file"},
		"http to https":     {strings.Replace(secure.URL, "https", "http", 1), "use " + secure.URL},
		"https to http":     {strings.Replace(plain.URL, "http", "https", 1), "use " + plain.URL},
		"redirect":          {moved.URL, "redirects to https://bloom.example; use that"},
		"no such host":      {"http://bloom.invalid:5000", "bloom.invalid"},
	} {
		got := newPerson(t, nil).run("workers", "--url", c.url)
		if got.code != cli.ExitFailure || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "bloom up") || strings.Contains(got.err, "/api/runtime") {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.err)
		}
	}
}

func TestAPromptThatIsNotTextIsRefused(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	for name, c := range map[string]struct{ in, want string }{
		"Latin-1":          {"caf\xe9", "UTF-8"},
		"binary":           {"\x7fELF\x00", "UTF-8"},
		"too long as JSON": {strings.Repeat("\"\n", 1<<20+1<<19), "6.0 MiB as JSON"},
	} {
		p.in = c.in
		if got := p.run("task", "submit"); got.code != cli.ExitUsage || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: exit code %d: %.300s", name, got.code, got.err)
		}
	}
	p.in = strings.Repeat("x", 4<<20-8<<10)
	p.must("task", "submit")
}

func TestKeysAreNotMadeByMistake(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	for _, never := range []string{"0d", "0", "off"} {
		wantRun(t, p.run("keys", "create", "--role", "viewer", "--name", "n", "--expires", never), cli.ExitUsage, "--expires: must be longer than 0")
	}
	typo := filepath.Join(t.TempDir(), "typo")
	wantRun(t, p.run("keys", "create", "--offline", "--data-dir", typo, "--role", "admin", "--name", "n"), cli.ExitUsage, "no folder "+typo)
	if _, err := os.Stat(typo); err == nil {
		t.Error("the folder was made")
	}
	empty := t.TempDir()
	wantRun(t, p.run("keys", "create", "--offline", "--data-dir", empty, "--role", "admin", "--name", "n"), 0, "no database in "+empty+": a new one was made")
}

func TestServicesAreNotInstalledByMistake(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	args := []string{"service", "install", "--init", "systemd", "--root", t.TempDir(), "--dry-run"}
	wantRun(t, p.run(args...), cli.ExitUsage, "<role>")
	wantRun(t, p.run(append(args, "runtime", "--set", "BLOOM_LISEN=1")...), cli.ExitUsage, `did you mean "BLOOM_LISTEN"?`)
	wantRun(t, p.run(append(args, "runtime", "--set", "RUNTIME_API_KYE=1")...), cli.ExitUsage, `did you mean "RUNTIME_API_KEY"?`)
	wantRun(t, p.run(append(args, "worker", "--set", "ANTHROPIC_API_KEY=1")...), cli.ExitOK, "")
	wantRun(t, p.run(append(args, "runtime", "--set", "BLOOM_LISTEN=0.0.0.0:5000")...), cli.ExitOK, "")
}
