package e2e_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMistakesOnTheCommandLineAreNamedPlainly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing at all":               {nil, 0, ""},
		"a group of commands alone":    {[]string{"task"}, 0, ""},
		"an empty data directory":      {[]string{"up", "--data-dir", ""}, 2, "--data-dir: the value is empty"},
		"an empty address":             {[]string{"server", "--listen="}, 2, "--listen: the value is empty"},
		"an empty filter":              {[]string{"task", "list", "--status="}, 2, "--status: the value is empty"},
		"an empty entry of a list":     {[]string{"worker", "--label", ""}, 2, "--label: the value is empty"},
		"an empty id":                  {[]string{"task", "get", ""}, 2, "<id>: the value is empty"},
		"an empty prompt":              {[]string{"task", "run", ""}, 2, "<prompt>: the value is empty"},
		"no value":                     {[]string{"server", "--listen"}, 2, "--listen: a value is missing"},
		"a value that looks a flag":    {[]string{"task", "submit", "x", "--delay", "-5s"}, 2, "write one that begins with a dash as --delay=-5s"},
		"a delay into the past":        {[]string{"task", "submit", "x", "--delay=-5s"}, 2, "--delay: -5s is negative"},
		"a negative budget":            {[]string{"task", "submit", "x", "--budget=-5"}, 2, "--budget: -5 is negative"},
		"no attempts":                  {[]string{"task", "submit", "x", "--max-attempts", "0"}, 2, "--max-attempts: 0 is not between 1 and 10"},
		"too many attempts":            {[]string{"task", "submit", "x", "--max-attempts", "11"}, 2, "--max-attempts: 11 is not between 1 and 10"},
		"no id":                        {[]string{"task", "get"}, 2, "<id> is missing"},
		"a status that is none":        {[]string{"task", "list", "--status", "done"}, 2, `--status: "done" is not one of queued, leased, running, completed, failed, dead, cancelled`},
		"a shell that is none":         {[]string{"completion", "tcsh"}, 2, `<shell>: "tcsh" is not one of bash, zsh, fish`},
		"a command that is none":       {[]string{"task", "lst"}, 2, `unexpected argument lst, did you mean "list"?`},
		"a key file that is not there": {[]string{"stats", "--key-file", "/nowhere"}, 2, "--key-file (or BLOOM_API_KEY_FILE): open /nowhere: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newNewcomer(t).bloom(t, c.args...)
			got.want(t, c.code, "", c.want)
			if c.code == 0 && !strings.Contains(got.out, "\nUsage: bloom") {
				t.Errorf("no help: %s", got.out)
			}
			if strings.Contains(got.err, "EOL") || strings.Contains(got.err, `""`) {
				t.Errorf("the parser's own words: %s", got.err)
			}
		})
	}
}

// TestTheAdviceOnAMistakeInTheConfigFileWorks: the recommended command must not fail in the same
// way.
func TestTheAdviceOnAMistakeInTheConfigFileWorks(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	n.config(t, "shutdown_gracious = \"3s\"\nlisten = \"127.0.0.1:5999\"\nprot = 5000\nreap_interval = \"soon\"\n")
	got := n.bloom(t, "stats")
	got.want(t, 2, "", `unknown key "shutdown_gracious"; `+"`bloom config show` lists them")
	got.want(t, 2, "", `unknown key "prot"; did you mean "port"?`)
	got.want(t, 2, "", `reap_interval: "soon" is not a time like 30s or 5m`)
	shown := n.bloom(t, "config", "show")
	shown.want(t, 2, "127.0.0.1:5999", `unknown key "shutdown_gracious"`)
	shown.want(t, 2, "shutdown_grace ", `unknown key "prot"`)
	n.bloom(t, "server", "--help").want(t, 0, "--shutdown-grace", "")
}

// TestAServerWithoutAControlPlaneReportsNoFailures: neither warnings nor failures, with the flag
// and without.
func TestAServerWithoutAControlPlaneReportsNoFailures(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"by default": nil, "said so": {"--no-membridge"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The metrics count the sync's runs.
			n := newNewcomer(t)
			url, printed := n.start(t, append([]string{"server", "--listen=127.0.0.1:0", "--membridge-sync-interval=100ms", "--reap-interval=100ms", "--log-level=debug",
				"--membridge-timeout=200ms"}, flags...)...)
			runs := regexp.MustCompile(`bloom_loop_last_success_timestamp_seconds\{loop="(?:reaper|worker-sync)"\} (\S+)`)
			seen := map[string]bool{}
			for limit := time.Now().Add(patience); len(seen) < 8 && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
				for _, m := range runs.FindAllStringSubmatch(get(t, url+"/metrics"), -1) {
					seen[m[0]] = true
				}
			}
			health := get(t, url+"/api/runtime/health")
			if !strings.Contains(health, `"consecutiveFailures":0`) || !strings.Contains(health, `"lastError":null`) {
				t.Errorf("health: %s", health)
			}
			for line := range strings.Lines(printed()) {
				if strings.Contains(line, "membridge") && (strings.Contains(line, "WARN") || strings.Contains(line, "ERROR")) {
					t.Errorf("the log misses membridge: %s", line)
				}
			}
		})
	}
}

func TestFilesWithPromptsAreReadableOnlyByTheirOwner(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	data := filepath.Join(n.home, "data")
	url, printed := n.start(t, "up", "--no-worker", "--listen=127.0.0.1:0", "--membridge-listen=127.0.0.1:0", "--data-dir", data)
	n.vars = []string{"BLOOM_RUNTIME_URL=" + url}
	n.bloom(t, "task", "submit", "a secret prompt").want(t, 0, "", "")
	n.bloom(t, "backup", "copy.db", "--data-dir", data).want(t, 0, "Copied the database to copy.db", "")
	files := 0
	err := filepath.WalkDir(n.home, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v\n%s", files, err, printed())
	}
	// With a running server, what cannot be done is explained in one sentence.
	got := n.bloom(t, "migrate", "up", "--data-dir", data)
	got.want(t, 1, "", "the database is in use: process ")
	got.want(t, 1, "", "(a server updates the schema when it starts)")
}

func TestATakenPortIsNamedWithTheFlagThatChangesIt(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	n := newNewcomer(t)
	n.bloom(t, "membridge", "--listen", taken.Addr().String()).want(t, 1, "", "choose another address (--listen 127.0.0.1:8001")
	n.bloom(t, "server", "--listen", taken.Addr().String()).want(t, 1, "", "choose another address (--listen 127.0.0.1:5001")
	url, printed := n.start(t, "up", "--no-worker", "--listen=127.0.0.1:0", "--membridge-listen", taken.Addr().String())
	for limit := time.Now().Add(patience); !strings.Contains(printed(), "NO MEMBRIDGE") && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
	}
	if text := printed(); !strings.Contains(text, "choose another address (--membridge-listen 127.0.0.1:8001") || strings.Contains(text, "(--listen") {
		t.Errorf("%s: %s", url, text)
	}
}

// TestTheDoctorLooksWhereTheWorkerLooks: both find a claude that make run downloaded, and the
// doctor reports a missing login.
func TestTheDoctorLooksWhereTheWorkerLooks(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	bin := filepath.Join(n.home, "tree", "bin")
	claude := filepath.Join(n.home, "tree", ".tools/claude/node_modules/@anthropic-ai/claude-code-linux-x64")
	for _, dir := range []string{bin, claude} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(claudeBinary(t), filepath.Join(claude, "claude")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(programs.bloom, filepath.Join(bin, "bloom")); err != nil {
		t.Fatal(err)
	}
	cmd := n.command(t, "doctor", "--listen=127.0.0.1:0", "--url=http://127.0.0.1:1")
	cmd.Path = filepath.Join(bin, "bloom")
	cmd.Env = []string{"HOME=" + n.home, "PATH=/nowhere"}
	out, _ := cmd.CombinedOutput()
	if text := string(out); !strings.Contains(text, "ok     claude") || !strings.Contains(text, claude) || !strings.Contains(text, "WRONG  login") {
		t.Errorf("the doctor says:\n%s", text)
	}
}
