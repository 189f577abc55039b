package cli_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestWrongUsageExitsWithTwo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"unknown command":               {nil, []string{"dance"}, "dance"},
		"unknown flag":                  {nil, []string{"stats", "--fast"}, "--fast"},
		"a time that is too short":      {nil, []string{"stats", "--since=1s"}, "--since must be between 1m and"},
		"empty prompt":                  {nil, []string{"task", "run", " "}, "the value is empty"},
		"timeout too long":              {nil, []string{"task", "submit", "x", "--timeout=25h"}, "between 1s and 24h"},
		"address that is none":          {nil, []string{"stats", "--url=localhost"}, "is not a URL"},
		"named config file missing":     {nil, []string{"--config=/nowhere", "stats"}, "no such file"},
		"config file without a name":    {map[string]string{"BLOOM_CONFIG": ""}, []string{"stats"}, "BLOOM_CONFIG) is set but empty"},
		"a prompt like a flag":          {nil, []string{"task", "run", "- milk"}, "write -- before it"},
		"a longer prompt like a flag":   {nil, []string{"task", "run", "--verbose is not known"}, "write -- before it"},
		"variable of the command empty": {map[string]string{"BLOOM_RUNTIME_URL": ""}, []string{"stats"}, "is set but empty"},
		"too many at once":              {nil, []string{"worker", "--max-concurrency=99"}, "between 1 and 32"},
		"some living processes":         {nil, []string{"worker", "--warm=some"}, "neither auto nor a number from 0 to 64"},
		"limit of nothing":              {nil, []string{"leases", "--limit=0"}, "at least 1"},
		"a short key":                   {map[string]string{"RUNTIME_API_KEY": "short"}, []string{"server", "--listen=127.0.0.1:0"}, "shorter than 16"},
		"a short key of membridge":      {map[string]string{"MEMBRIDGE_ADMIN_KEY": "short"}, []string{"membridge", "--listen=127.0.0.1:0"}, "shorter than 16"},
		"a short key for agents":        {map[string]string{"MEMBRIDGE_AGENT_KEY": "short"}, []string{"up", "--listen=127.0.0.1:0", "--membridge-listen=127.0.0.1:0"}, "shorter than 16"},
		"tokens that are perhaps":       {nil, []string{"membridge", "--agent-tokens=perhaps"}, "optional"},
		"tokens by a variable":          {map[string]string{"BLOOM_MEMBRIDGE_AGENT_TOKENS": "yes"}, []string{"up"}, "optional"},
		"a port that is none":           {map[string]string{"PORT": "http"}, []string{"server"}, `PORT: "http" is not a whole number`},
		"a time that is none":           {nil, []string{"server", "--reap-interval=soon"}, `"soon" is not a time like 30s or 5m`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, nil)
			for k, v := range c.env {
				p.env[k] = v
			}
			got := p.run(c.args...)
			if got.code != cli.ExitUsage || !strings.Contains(got.err, c.want) {
				t.Errorf("exit code %d, errors %q; want 2 and %q", got.code, got.err, c.want)
			}
		})
	}
}

func TestAnotherCommandsVariableDoesNotStopThisOne(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	p.env["PORT"] = "not a port"
	if out := p.must("version"); !strings.HasPrefix(out, "bloom ") {
		t.Errorf("got %q", out)
	}
}

func TestAbsentServerIsExplained(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	rt.Down()
	if got := p.run("workers"); got.code != cli.ExitFailure || !strings.Contains(got.err, "bloom up") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestWrongKeyIsExplained(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	p.env["BLOOM_API_KEY"] = "some-other-key-nobody-knows"
	got := p.run("workers")
	if got.code != cli.ExitFailure || !strings.Contains(got.err, "--key-file") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	if strings.Contains(got.err, "nobody-knows") {
		t.Error("the key was printed")
	}
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	p.env = map[string]string{"HOME": "/home/someone", "RUNTIME_API_KEY": "abcd-a-secret-of-ours-wxyz", "PORT": "6000"}
	golden(t, "config_show.txt", p.must("config", "show"))
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := p.must("completion", shell)
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // its syntax is checked where the shell is installed
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = bytes.NewBufferString(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
		}
	}
	for words, want := range map[string]string{
		"":                       "up",
		"ta":                     "task",
		"task re":                "requeue",
		"task list --sta":        "--status",
		"task list --status co":  "completed",
		"completion f":           "fish",
		"task list --status = c": "cancelled", // as bash splits --status=c
		"task list --status =":   "queued",
	} {
		args := append([]string{"__complete", "--"}, strings.Split(words, " ")...)
		out := p.must(args...)
		found := false
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			found = found || word == want
		}
		if !found {
			t.Errorf("completing %q does not offer %q:\n%s", words, want, out)
		}
	}
}

func TestCompletionOffersWhatTheServerHas(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	task := strings.TrimSpace(p.must("task", "submit", "Write a poem", "--agent=poet", "--context=verses", "--label=unobtainium"))
	if _, err := apiOf(t, rt).RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "node-1"}); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"task get ": task + "\tqueued, Write a poem", "logs ": task, "task list --agent ": "poet", "contexts get ": "verses\t1 task", "run -c ver": "verses", "workers drain n": "node-1\tonline",
	} {
		if out := p.must(append([]string{"__complete", "--"}, strings.Split(words, " ")...)...); !strings.HasPrefix(out, want) {
			t.Errorf("completing %q: %q, want %q", words, out, want)
		}
	}
	if out := p.must("__complete", "--", "logs", "@"); !strings.HasPrefix(out, "@last\t") {
		t.Errorf("@last is not offered: %q", out)
	}
	p.env["BLOOM_RUNTIME_URL"] = "http://127.0.0.1:1"
	if out := p.must("__complete", "--", "task", "get", ""); out != "" {
		t.Errorf("without a server: %q", out)
	}
}

func TestDoctorNamesWhatIsWrongAndTheFix(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	dir := t.TempDir()
	listen := strings.TrimPrefix(rt.URL, "http://")
	got := p.run("doctor", "--json", "--claude=/nowhere/claude", "--data-dir", dir, "--listen", listen)
	if got.code != cli.ExitFailure {
		t.Errorf("exit code %d", got.code)
	}
	found := map[string]app.Finding{}
	for _, f := range decode[[]app.Finding](t, got.out) {
		found[f.Name] = f
	}
	for name, want := range map[string]app.Verdict{"claude": app.Wrong, "folder": app.Fine, "disk": app.Fine,
		"clock": app.Fine, "port": app.Fine, "server": app.Fine, "key": app.Fine} {
		if found[name].Status != want {
			t.Errorf("%s: %+v, want %s", name, found[name], want)
		}
		if found[name].Status == app.Wrong && found[name].Fix == "" {
			t.Errorf("%s is wrong, and no fix is named", name)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the examination left %v behind, %v", entries, err)
	}

	p.env["BLOOM_API_KEY"] = "some-other-key-nobody-knows"
	if got := p.run("doctor", "--claude=/nowhere/claude", "--listen", listen); !strings.Contains(got.out, "WRONG  key") {
		t.Errorf("a refused key is not found:\n%s", got.out)
	}
	rt.Down()
	if got := p.run("doctor", "--claude=/nowhere/claude", "--listen", "127.0.0.1:0"); !strings.Contains(got.out, "WRONG  server") {
		t.Errorf("an absent server is not found:\n%s", got.out)
	}
}

func TestDoctorGivesItsAdviceOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := newPerson(t, nil).run("doctor", "--data-dir", t.TempDir(), "--listen=127.0.0.1:0"); strings.Count(got.out, "npm install") != 1 {
		t.Errorf("got:\n%s", got.out)
	}
}

func TestMigrateAndBackup(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	dir := filepath.Join(t.TempDir(), "data")
	if got := p.run("migrate", "status", "--data-dir", dir); got.code != cli.ExitFailure || !strings.Contains(got.err, "no database") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	p.must("migrate", "up", "--data-dir", dir)
	if out := p.must("migrate", "status", "--data-dir", dir); strings.Contains(out, "pending") {
		t.Errorf("steps are pending:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	server, err := app.OpenServer(t.Context(), config.Server{Data: config.Data{DataDir: dir}, Listen: "127.0.0.1:0",
		MembridgeAccess: config.MembridgeAccess{MembridgeServerURL: "http://127.0.0.1:1"}},
		app.Build{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	p.must("backup", file, "--data-dir", dir) // while a server has it open
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("the copy: %v", err)
	}
	if got := p.run("backup", file, "--data-dir", dir); got.code != cli.ExitFailure || !strings.Contains(got.err, "file already exists: "+file+"; choose another name") {
		t.Errorf("a copy that was there: exit code %d, %s", got.code, got.err)
	}
}
