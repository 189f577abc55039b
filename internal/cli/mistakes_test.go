package cli_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestMemoryAdviceNamesItsProject(t *testing.T) {
	t.Parallel()
	storage := miniotest.Shared(t).Bucket()
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
	required := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden) // as --http-redirect answers to what would change something
		_, _ = w.Write([]byte(`{"error":"This server requires https","code":"https_required"}`))
	}))
	defer required.Close()
	for name, c := range map[string]struct{ url, want string }{
		"no plain http":     {required.URL, "it requires https"},
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
	wantRun(t, p.run("keys", "create", "--offline", "--data-dir", typo, "--role", "admin", "--name", "n"), cli.ExitUsage, "the folder "+typo+" does not exist")
	if _, err := os.Stat(typo); err == nil {
		t.Error("the folder was made")
	}
	empty := t.TempDir()
	wantRun(t, p.run("keys", "create", "--offline", "--data-dir", empty, "--role", "admin", "--name", "n"), 0, "Created a new database in "+empty)
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

func TestMistakesAtTheStartNameTheirFlag(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--mcp-config: stat /nonexistent":      {"worker", "--mcp-config", "/nonexistent"},
		"--mcp-config: " + dir + " is not a r": {"worker", "--mcp-config", dir},
		"--mcp-config: the value is not a JSO": {"worker", "--mcp-config", "{"},
		`--name: "a/b" must fit`:               {"worker", "--name", "a/b"},
		"--pass-env: BLOOM_API_KEY":            {"worker", "--pass-env", "BLOOM_API_KEY"},
		"--client-cert: stat /nowhere":         {"worker", "--client-cert", "/nowhere", "--client-key", "/nowhere"},
		"--tls-cert: stat /nowhere":            {"server", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"},
		"--database-url (or DATABASE_URL): po": {"server", "--database-url", "postgres://%zz", "--listen", "127.0.0.1:0"},
	} {
		got := p.run(append(args, "--data-dir", dir)...)
		if got.code != cli.ExitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%v: exit code %d: %s%s", args, got.code, got.out, got.err)
		}
	}
	if made, err := os.ReadDir(filepath.Join(dir, "workers")); err == nil {
		t.Errorf("made %v", made)
	}
	wantRun(t, p.run("doctor", "--mcp-config", "/nonexistent", "--data-dir", dir), cli.ExitUsage, "--mcp-config: stat /nonexistent")
}

func TestAWrongValueIsReportedWithItsSource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, env string
		args      []string
		want      string // FILE stands for the config file
	}{
		"line of the file":           {"# ours\nlisten = \"nonsense\"", "", []string{"server"}, `listen (config file FILE, line 2): "nonsense" is not HOST:PORT`},
		"variable":                   {"", "BLOOM_LISTEN=nonsense", []string{"server"}, `BLOOM_LISTEN: "nonsense" is not HOST:PORT`},
		"variable before the file":   {`listen = "127.0.0.1:1"`, "BLOOM_LISTEN=nonsense", []string{"server"}, `BLOOM_LISTEN: "nonsense" is not HOST:PORT`},
		"flag before the file":       {`listen = "127.0.0.1:1"`, "", []string{"server", "--listen=nonsense"}, `--listen: "nonsense" is not HOST:PORT`},
		"number out of range":        {"\n\nmax_concurrency = 99", "", []string{"worker"}, "max_concurrency (config file FILE, line 3): 99 is not between 1 and 32"},
		"after a list of lines":      {"labels = [\n'a',\n'b',\n]\nwarm = 'some'", "", []string{"worker"}, `warm (config file FILE, line 5): "some" is neither auto nor`},
		"malformed":                  {"\nreap_interval = 'soon'", "", []string{"stats"}, `config file FILE, line 2: reap_interval: "soon" is not a time`},
		"unknown":                    {"\nlisen = 'x'", "", []string{"stats"}, `config file FILE, line 2: unknown key "lisen"; did you mean "listen"?`},
		"table":                      {"port = 1\n[server]\nlisten = 'x'", "", []string{"stats"}, "config file FILE, line 2: server is a table"},
		"one of two":                 {"tls_cert = 'FILE'", "", []string{"server"}, "tls_cert (config file FILE, line 1) requires --tls-key"},
		"key file":                   {"runtime_api_key_file = '/nowhere'", "", []string{"server"}, "runtime_api_key_file (config file FILE, line 1): open /nowhere"},
		"key file by variable":       {"", "RUNTIME_API_KEY_FILE=/nowhere", []string{"server"}, "bloom: RUNTIME_API_KEY_FILE: open /nowhere"},
		"key and key file":           {"runtime_api_key = '0123456789abcdef'", "RUNTIME_API_KEY_FILE=FILE", []string{"server"}, "runtime_api_key (config file FILE, line 1) and RUNTIME_API_KEY_FILE are both set"},
		"found when the role starts": {"database_url = 'postgres://%zz'", "", []string{"server", "--listen=127.0.0.1:0"}, "database_url (config file FILE, line 1): "},
		"all of them":                {"max_concurrency = 99\nreap_interval = 'soon'", "", []string{"config", "show"}, "max_concurrency (config file FILE, line 1): 99"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, nil)
			file := filepath.Join(t.TempDir(), "bloom.toml")
			p.env["BLOOM_DATA_DIR"] = t.TempDir()
			if name, value, ok := strings.Cut(strings.ReplaceAll(c.env, "FILE=FILE", "FILE="+file), "="); ok {
				p.env[name] = value
			}
			if c.file != "" {
				p.env["BLOOM_CONFIG"] = file
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(c.file, "'FILE'", "'"+file+"'")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wantRun(t, p.run(c.args...), cli.ExitUsage, strings.ReplaceAll(c.want, "config file FILE", "config file "+file))
		})
	}
}

// A service that waits for its settings for ever would block the machine's start.
func TestAPipeThatNobodyWritesToIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	silent, written := filepath.Join(dir, "silent"), filepath.Join(dir, "written")
	for _, path := range []string{silent, written} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newPerson(t, nil)
	wantRun(t, p.run("--config", silent, "config", "show"), cli.ExitUsage, silent+" is a pipe, and nothing was written to it")
	wantRun(t, p.run("server", "--runtime-api-key-file", silent), cli.ExitUsage, silent+" is a pipe, and nothing was written to it")
	wantRun(t, p.run("--config", "/dev/zero", "config", "show"), cli.ExitUsage, "/dev/zero is larger than 1024 KiB")
	wantRun(t, p.run("--config", "/dev/null", "config", "show"), cli.ExitOK, "")
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(written, []byte("max_concurrency = 7\n"), 0) }()
	if got := p.run("--config", written, "config", "show"); !regexp.MustCompile(`max_concurrency +7 +file`).MatchString(got.out) {
		t.Errorf("a pipe with settings: exit code %d: %s%s", got.code, got.out, got.err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whatever is at --claude, tasks wait until there is a claude that works.
func TestTasksWaitForAClaudeThatWorks(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker")
	good := s.read("claude")
	s.file("claude", "#!/bin/sh\necho 'true (GNU coreutils) 9.1'\n")
	s.start("--runtime-url", s.rt.URL, "--key-file", "{dir}/admin-key", "--data-dir", "{dir}/data", "--claude", "{claude}")
	s.says(`NO CLAUDE: \S+ is not claude: it answers --version with "true \(GNU coreutils\) 9\.1"; name the claude program with --claude`)
	if w := s.worker(); w.Capabilities.ClaudeCLI {
		t.Error("it says that it runs claude")
	}
	task := s.submit("say pong")

	old := strings.Replace(good, "2.1.197 (Claude Code)", "2.1.99 (Claude Code)", 1)
	s.file("claude", old)
	s.says(`claude 2\.1\.99 at \S+ is older than 2\.1\.197.*update it with npm install`)
	said, code := s.run("doctor", "--url", s.rt.URL, "--key-file", filepath.Join(s.dir, "admin-key"), "--data-dir", s.dir, "--claude", filepath.Join(s.dir, "claude"))
	if code != cli.ExitFailure || !strings.Contains(said, "is older than 2.1.197") || !strings.Contains(said, "→ update it with npm install") {
		t.Errorf("doctor: exit code %d: %s", code, said)
	}

	s.file("claude", good)
	s.says("claiming tasks again: claude is available")
	if got := s.awaited(task); got.Status != bloom.TaskCompleted || got.Attempts != 1 {
		t.Errorf("the task is %s after %d attempts", got.Status, got.Attempts)
	}
}

// The port is used by another runtime's membridge, whose workers do not belong to this one.
func TestUpWithoutAPortForMembridgeReadsNoOther(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newStage(t, "up")
	s.start("--data-dir", "{dir}/data", "--listen", "127.0.0.1:0", "--membridge-listen", taken.Addr().String(), "--no-worker")
	s.says("NO MEMBRIDGE")
	if status, said := s.call("POST", s.url()+"/api/runtime/test-connection", "{}"); status != 200 || !strings.Contains(said, "started without membridge") {
		t.Errorf("the connection's test says %d %s", status, said)
	}
}

// A person who watches up sees what happens to tasks, and not each request.
func TestUpShowsNoRequestsOnATerminal(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		p := newPerson(t, nil)
		p.terminal = terminal
		address := porttest.Address(t)
		go func() {
			for {
				res, err := http.Get("http://" + address + "/api/runtime/stats")
				if err != nil {
					runtime.Gosched()
					continue
				}
				_ = res.Body.Close()
				p.signals <- os.Interrupt
				return
			}
		}()
		got := p.run("up", "--data-dir", t.TempDir(), "--listen", address, "--no-worker", "--no-membridge")
		if logged := strings.Contains(got.err, "GET /api/runtime/stats 200"); got.code != cli.ExitOK && got.code != cli.ExitInterrupted || logged == terminal {
			t.Errorf("terminal: %v, exit code %d: %s", terminal, got.code, got.err)
		}
	}
}

func TestAMistypedWorkingFolderIsNotMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "porject")
	got := newPerson(t, nil).run("up", "--data-dir", t.TempDir(), "--workdir", dir)
	if _, err := os.Stat(dir); got.code != cli.ExitUsage || !strings.Contains(got.err, "--workdir: the folder "+dir+" does not exist") || err == nil {
		t.Errorf("%+v, %v", got, err)
	}
}
