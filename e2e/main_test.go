package e2e_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programs are the binaries under test, built once for all tests.
var programs struct{ bloom, standin string }

// patience bounds every wait for something that should happen soon, also on a busy machine.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil {
		// The scenarios wait more than they compute; a claude takes 250 MB.
		if n, err := strconv.Atoi(f.Value.String()); err == nil && n < 4 {
			_ = f.Value.Set("4")
		}
	}
	dir, err := os.MkdirTemp("", "bloom-e2e-")
	if err != nil {
		return giveUp(err)
	}
	defer os.RemoveAll(dir)
	_ = os.Chmod(dir, 0o755) // a test runs it as another user
	if err := build(dir); err != nil {
		return giveUp(err)
	}
	code := m.Run()
	if left := sweep(markPrefix()); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes of the tests are still alive:\n%s\n", strings.Join(left, "\n"))
		code = 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			return giveUp(err)
		}
	}
	return code
}

func giveUp(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

func build(dir string) error {
	args := append([]string{"build", "-o", dir + "/"}, buildFlags...)
	if len(buildFlags) == 0 {
		args = append(args, "-trimpath") // as make build does: most of it is in the build cache
	}
	cmd := exec.Command("go", append(args, "./cmd/bloom", "./cmd/bloom-standin")...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build bloom: %w\n%s", err, out)
	}
	// BLOOM_TEST_SERVER selects another bloom, to try the attacks on an earlier version.
	programs.bloom, programs.standin = filepath.Join(dir, "bloom"), filepath.Join(dir, "bloom-standin")
	programs.bloom = cmp.Or(os.Getenv("BLOOM_TEST_SERVER"), programs.bloom)
	return nil
}

// unraced is the program without the race detector, whose own records take five to ten times the
// memory. It is built with the flags of make build, so that most of it is in the build cache.
var unraced = sync.OnceValues(func() (path string, err error) {
	if os.Getenv("BLOOM_TEST_SERVER") != "" || len(buildFlags) == 0 {
		return programs.bloom, nil
	}
	path = programs.bloom + "-unraced"
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "../cmd/bloom")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// claudeBinary returns the real command line: BLOOM_TEST_CLAUDE, else the one that
// scripts/install-claude.sh installed, else the one on the PATH. Without one the test fails: a
// skipped test would prove nothing.
func claudeBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BLOOM_TEST_CLAUDE"); path != "" {
		return path
	}
	installed, err := filepath.Glob("../.tools/claude/node_modules/@anthropic-ai/claude-code-*/claude")
	if err == nil && len(installed) > 0 {
		path, err := filepath.Abs(installed[0])
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	if path, err := exec.LookPath("claude"); err == nil {
		return path
	}
	t.Fatal("these tests run the real claude command line, which is not installed: run make test-deps (scripts/install-claude.sh)")
	return ""
}
