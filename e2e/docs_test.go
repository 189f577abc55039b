package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestTheCommandsOfTheGuidesWork runs the commands of the pages about tasks as printed, in order,
// against a server and a worker, in a repository.
func TestTheCommandsOfTheGuidesWork(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"git", "jq", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	h := newHarness(t)
	h.serve()
	h.anything(func(standin.Request) standin.Reply { return standin.Reply{Text: `{"ok": true}`} })
	h.work(workerOptions{name: "one"}).says("registered")
	project := filepath.Join(h.dir, "home", "my-project")
	if err := os.MkdirAll(filepath.Join(project, "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	file(t, filepath.Join(project, "src", "a.go"), "package a\n")
	file(t, filepath.Join(project, "sales.csv"), "month,sales\nMay,3\n")
	shell := func(commands string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands)
		cmd.Dir = project
		cmd.Env = h.env("H="+h.url, "KEY="+adminKey, // which the first block of a page sets in the reader's shell
			"BLOOM_RUNTIME_URL="+h.url, "BLOOM_API_KEY="+adminKey, "RUNTIME_API_KEY="+adminKey,
			"PATH="+filepath.Dir(programs.bloom)+":"+os.Getenv("PATH"), "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=a", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=a")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", commands, err, out)
		}
	}
	shell("git init -q -b main && git add . && git commit -qm start && echo >>src/a.go")
	// What the reader fills in; and what needs another machine, an account, or runs until it is stopped.
	filled := strings.NewReplacer("http://127.0.0.1:5000", h.url,
		"content ID", `content $(bloom artifacts list --task @last --json | jq -r '.[0].id')`,
		"cancel ID", `cancel $(bloom task list --status queued --json | jq -r '.[0].id')`,
		"requeue ID", `requeue $(bloom task list --status cancelled --json | jq -r '.[0].id')`)
	skipped := regexp.MustCompile(`npm install|git clone|bloom (up|worker|doctor)|BLOOM_CI_KEY`)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for page, want := range map[string]int{
		"getting-started.md": 4, "guides/tasks.md": 4, "guides/contexts.md": 3, "guides/artifacts.md": 2, "guides/schedules.md": 2,
		"guides/agents.md": 1, "guides/recipes.md": 9, "guides/http-api.md": 2,
	} {
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for _, block := range blocks.FindAllStringSubmatch(filled.Replace(string(text)), -1) {
			if !skipped.MatchString(block[1]) {
				ran++
				shell(block[1])
			}
		}
		if ran != want {
			t.Errorf("%s has %d blocks of commands to run, want %d", page, ran, want)
		}
	}
}
