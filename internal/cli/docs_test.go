package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// reader follows a page of the documentation on its own machine.
type reader struct {
	*testing.T
	home string
	env  []string
	left []string // blocks of commands, as printed, with this machine's addresses
}

// openPage prepares the commands of a page; replace substitutes this machine's addresses for those
// on the page.
func openPage(t *testing.T, page string, replace ...string) *reader {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, home: t.TempDir()}
	r.program("bloom", fmt.Sprintf("export %s=1\nexec %s \"$@\"\n", asProgram, os.Args[0]))
	r.env = []string{"HOME=" + r.home, "PATH=" + r.home + ":" + os.Getenv("PATH"), "BLOOM_LISTEN=127.0.0.1:0", "BLOOM_MEMBRIDGE_LISTEN=127.0.0.1:0", "BLOOM_WARM=0"}
	text := strings.NewReplacer(replace...).Replace(string(raw))
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		r.left = append(r.left, strings.TrimSpace(block[1]))
	}
	return r
}

func (r *reader) program(name, script string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.home, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		r.Fatal(err)
	}
}

// block returns the next block of the page, which must start with begin.
func (r *reader) block(begin string) string {
	r.Helper()
	if len(r.left) == 0 || !strings.HasPrefix(r.left[0], begin) {
		r.Fatalf("the next commands of the page are %q, want %q", r.left, begin)
	}
	block := r.left[0]
	r.left = r.left[1:]
	return block
}

func (r *reader) command(ctx context.Context, text string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", text)
	cmd.Dir, cmd.Env = r.home, slices.Concat(r.env, env)
	return cmd
}

// runs expects commands to succeed and returns their output.
func (r *reader) runs(text string, env ...string) string {
	r.Helper()
	out, err := r.command(r.Context(), text, env...).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v: %s", text, err, out)
	}
	return string(out)
}

// serves starts a command that serves, and returns its URL and a function that stops it.
func (r *reader) serves(text string, env ...string) (url string, stop func()) {
	r.Helper()
	cmd := r.command(context.WithoutCancel(r.Context()), text, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell and its children
	var said syncBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
	}
	r.Cleanup(stop)
	listens := regexp.MustCompile(`(?:Runtime listens at|BLOOM Runtime ) (https?://[^\s,]+)`)
	var found []string
	if !within(stageLimit, func() bool { found = listens.FindStringSubmatch(said.String()); return found != nil }) {
		r.Fatalf("%s: %s", text, &said)
	}
	return found[1], stop
}

// tasks posts n tasks.
func (r *reader) tasks(url string, n int) {
	r.Helper()
	api, err := client.New(url, client.Options{})
	if err != nil {
		r.Fatal(err)
	}
	defer api.Close()
	for range n {
		if _, err := api.Submit(r.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p", Labels: []string{"nobody"}}); err != nil {
			r.Fatal(err)
		}
	}
}

func TestTheCommandsOfTheObjectStoragePageWork(t *testing.T) {
	t.Parallel()
	storage := miniotest.Start(t).Bucket()
	r := openPage(t, "guides/object-storage.md", "http://127.0.0.1:9000", "http://"+storage.Endpoint,
		"MINIO_ACCESS_KEY=minioadmin", "MINIO_ACCESS_KEY="+storage.AccessKey, "MINIO_SECRET_KEY=minioadmin", "MINIO_SECRET_KEY="+storage.SecretKey)
	r.program("claude", `case "$1" in --version) echo "2.1.197 (Claude Code)"; exit 0;; --help) exit 0;; auth) echo '{"loggedIn":true,"authMethod":"api_key"}'; exit 0;; esac
mkdir -p out && echo a haiku >out/haiku.txt
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":[]}'
read -r prompt
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'
`)
	url, _ := r.serves(r.block("MINIO_ENDPOINT="))
	server := "BLOOM_RUNTIME_URL=" + url
	if out := r.runs(r.block("bloom task run"), server); !strings.Contains(out, "out/haiku.txt") {
		t.Errorf("the file of the run is not listed: %s", out)
	}
	if out := r.runs("bloom artifacts list --json", server); !strings.Contains(out, "minio://bloom-artifacts/") {
		t.Errorf("no artifact is in the bucket: %s", out)
	}
	if out := r.runs("bloom artifacts list", server); !strings.Contains(out, "(in the bucket)") {
		t.Errorf("the table does not say that the result is in the bucket: %s", out)
	}
	if out := r.runs(r.block("bloom artifacts move"), server); !strings.Contains(out, "artifacts") {
		t.Errorf("move and verify say %s", out)
	}
	if len(r.left) != 0 {
		t.Errorf("not run: %q", r.left)
	}
}

func TestTheCommandsOfTheAuditPageWork(t *testing.T) {
	t.Parallel()
	storage, database := miniotest.Start(t).Bucket(), pgtest.Start(t)
	folder, places := filepath.Join(t.TempDir(), "bloom-audit"), t.TempDir()
	r := openPage(t, "guides/audit.md", "/var/lib/bloom-audit", folder, "/mnt/copy", places+"/copy", "postgres://bloom@db/bloom", database)
	url, stop := r.serves("bloom server --no-membridge")
	r.tasks(url, 3)
	if out := r.runs(r.block("bloom audit verify"), "BLOOM_RUNTIME_URL="+url); !strings.Contains(out, "unchanged") {
		t.Errorf("verify says %s", out)
	}
	r.runs(r.block("bloom audit export"), "BLOOM_RUNTIME_URL="+url)
	stop()
	url, stop = r.serves(r.block("bloom server --audit-export"), "BLOOM_NO_MEMBRIDGE=true")
	lines := strings.Split(r.block("bloom audit verify --files"), "\n")
	if !within(stageLimit, func() bool {
		return r.command(t.Context(), lines[0]+" | grep -q '3 entries'", "BLOOM_RUNTIME_URL="+url).Run() == nil
	}) {
		t.Errorf("not exported: %s", r.runs(lines[0], "BLOOM_RUNTIME_URL="+url))
	}
	if err := os.Symlink(folder, filepath.Join(places, "copy")); err != nil {
		t.Fatal(err)
	}
	bucket := []string{"MINIO_ENDPOINT=http://" + storage.Endpoint, "MINIO_ACCESS_KEY=" + storage.AccessKey, "MINIO_SECRET_KEY=" + storage.SecretKey}
	shared := slices.Concat(bucket, []string{"DATABASE_URL=" + database, "BLOOM_NO_MEMBRIDGE=true", "BLOOM_DATA_DIR=" + t.TempDir()})
	other, end := r.serves("bloom server", shared...)
	r.tasks(other, 3)
	end()
	other, _ = r.serves("bloom server", shared...) // exports when it starts
	for _, line := range lines[1:] {
		env := []string{"BLOOM_RUNTIME_URL=" + url}
		if strings.Contains(line, "--files bucket") {
			env = append(bucket, "BLOOM_RUNTIME_URL="+other)
			within(stageLimit, func() bool { return r.command(t.Context(), line, env...).Run() == nil })
		}
		r.runs(line, env...)
	}
	if out := r.runs("cd " + folder + "\n" + r.block("zcat")); strings.TrimSpace(out) != "True" {
		t.Errorf("without the program it says %s", out)
	}
	stop()
	r.runs(r.block("bloom audit verify --data-dir"))
	if len(r.left) != 0 {
		t.Errorf("not run: %q", r.left)
	}
}
