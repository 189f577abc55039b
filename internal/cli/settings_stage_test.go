package cli_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/oidctest"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// asProgram makes the test binary run as bloom.
const asProgram = "BLOOM_TEST_AS_PROGRAM"

// stageLimit bounds every wait.
const stageLimit = 2 * time.Minute

// stage is one role, run as a process, and stand-ins around it that record what it does.
type stage struct {
	*testing.T
	role     string
	dir      string // has all files
	bridge   *recorder
	rt       *runtimetest.Runtime // the runtime of a worker; nil for other roles
	seen     *recorder            // requests to rt
	provider *oidctest.Provider   // the sign-in provider; nil without one
	key      string               // an admin key of the runtime
	pairs    []string             // of values
	values   *strings.Replacer

	cmd   *exec.Cmd
	out   syncBuffer
	ended chan struct{}
}

func newStage(t *testing.T, role string) *stage {
	s := &stage{T: t, role: role, dir: t.TempDir(), bridge: &recorder{}, seen: &recorder{}, ended: make(chan struct{})}
	bridge := httptest.NewServer(s.bridge.membridge())
	t.Cleanup(bridge.Close)
	t.Cleanup(s.bridge.release)
	_, port, _ := net.SplitHostPort(porttest.Address(t))
	pairs := []string{"{dir}", s.dir, "{bridge}", bridge.URL, "{port}", port, "{claude}", s.script()}
	if role == "worker" {
		s.rt = runtimetest.Start(t)
		s.rt.Intercept(func(_ http.ResponseWriter, r *http.Request) bool { s.seen.note(r, nil); return false })
		s.key = runtimetest.AdminKey
		pairs = append(pairs, "{runtime}", s.rt.URL)
	}
	s.file("unusual-workdir/ours", "")
	s.file("key", "a-key-out-of-a-file\n")
	s.file("admin-key", runtimetest.AdminKey+"\n")
	s.pairs, s.values = pairs, strings.NewReplacer(pairs...)
	return s
}

// script writes the claude that records how it was called once it has a prompt: a spare one has none. A prompt with HANG makes it go silent, and one that may ask asks.
func (s *stage) script() string {
	s.file("claude", `#!/bin/sh
case "$1" in --version) echo "2.1.197 (Claude Code)"; exit 0;; --help) exit 0;; auth) echo '{"loggedIn":true,"authMethod":"api_key"}'; exit 0;; esac
dir="`+s.dir+`"
printf '%s\n' "$@" >"$dir/started.tmp"; mv "$dir/started.tmp" "$dir/started"
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":[]}'
read -r prompt || [ -n "$prompt" ] || exit 0
printf '%s\n' "$@" >"$dir/args.tmp"; env >"$dir/env.tmp"; pwd >"$dir/pwd.tmp"
for f in args env pwd; do mv "$dir/$f.tmp" "$dir/$f"; done
case "$*" in *--permission-prompt-tool*) echo '{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"git push"},"tool_use_id":"toolu_1"}}'; exec sleep 3600;; esac
case "$prompt" in *HANG*) exec sleep 3600;; *MIB*) pong=$(head -c $((${prompt#MIB }*1048576)) /dev/zero | tr '\0' x);; esac
printf %s '{"type":"result","subtype":"success","is_error":false,"result":"'; printf %s "${pong:-pong}"; echo '","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'
`)
	path := filepath.Join(s.dir, "claude")
	if err := os.Chmod(path, 0o700); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *stage) file(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.Error(err)
	}
	return string(raw)
}

// start runs the role until the test ends.
func (s *stage) start(args ...string) {
	s.Helper()
	for i := range args {
		args[i] = s.values.Replace(args[i])
	}
	s.cmd = exec.Command(os.Args[0], append([]string{s.role}, args...)...)
	s.cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "CANARY_A=passed-on", "CANARY_B=kept"}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.WaitDelay = 10 * time.Second
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { defer close(s.ended); _ = s.cmd.Wait() }()
	s.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-s.ended:
		case <-time.After(stageLimit):
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		if s.Failed() {
			s.Logf("bloom %s said:\n%s", strings.Join(s.cmd.Args[1:], " "), s.out.String())
		}
	})
}

// run runs another command to its end and returns its output and exit code.
func (s *stage) run(args ...string) (string, int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), os.Args[0], args...)
	cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// stop asks the role to stop and waits for its end.
func (s *stage) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.await("the end", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
}

// await polls until ok, because there is no signal to wait for.
func (s *stage) await(what string, ok func() bool) {
	s.Helper()
	if !within(stageLimit, ok) {
		s.Fatalf("waited in vain for %s", what)
	}
}

func within(d time.Duration, ok func() bool) bool {
	for limit := time.Now().Add(d); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// says waits until the role's output matches the pattern and returns the last group.
func (s *stage) says(pattern string) string {
	s.Helper()
	var found []string
	re := regexp.MustCompile(pattern)
	s.await(pattern, func() bool { found = re.FindStringSubmatch(s.out.String()); return found != nil })
	return found[len(found)-1]
}

var readyLines = map[string]string{
	"server": `Runtime listens at (https?://\S+),`, "up": `BLOOM Runtime  (https?://\S+)`, "membridge": `Membridge listens at (https?://\S+),`,
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
