package claude

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// MinVersion is the oldest supported version of claude; older ones were not tested.
const MinVersion = "2.1.197"

// unusableFor is how long the result of a failed check is cached.
const unusableFor = 2 * time.Second

// Unusable is the error of a program that exists but cannot run tasks.
type Unusable struct {
	Path string
	Why  string // what is wrong with it
	Fix  string // what to do, in the imperative
}

func (e *Unusable) Error() string { return e.Why + "; " + e.Fix }

// versionLine is claude's answer to --version; a wrapper may print other lines, too.
var versionLine = regexp.MustCompile(`(?m)^((\d+)\.(\d+)\.(\d+)\S*) \(Claude Code\)\s*$`)

// identify returns the version of the program at path. It fails with *Unusable if the
// program is not claude, or is too old.
func identify(ctx context.Context, c Config, path string) (string, error) {
	output, exit, err := runClaude(ctx, c, path, "--version")
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", &Unusable{path, err.Error(), "run " + path + " --version and see what it says; reinstall it"}
	}
	version := versionLine.FindStringSubmatch(output)
	switch {
	case version == nil && exit.Code != 0:
		return "", &Unusable{path, fmt.Sprintf("%s --version ended with code %d", path, exit.Code), "run it and see what it says; reinstall it"}
	case version == nil:
		first, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
		return "", &Unusable{path, fmt.Sprintf("%s is not claude: it answers --version with %q", path, storable.Cut(first, 80)),
			"name the claude program with --claude, or leave --claude out to use the one on the PATH"}
	case slices.Compare(numbers(version[2:]), numbers(strings.Split(MinVersion, "."))) < 0:
		return version[1], &Unusable{path, fmt.Sprintf("claude %s at %s is older than %s, the oldest that works", version[1], path, MinVersion),
			"update it with npm install -g @anthropic-ai/claude-code@latest, or name a newer one with --claude"}
	}
	return strings.TrimSpace(version[0]), nil
}

func numbers(words []string) []int {
	out := make([]int, len(words))
	for i, w := range words {
		out[i], _ = strconv.Atoi(w) // digits; one too long for an int is newer than anything
	}
	return out
}

// Usable returns why claude cannot run tasks now, nil if it can. It runs the program only
// if its file has changed since it was usable, and every few seconds while it is not.
func (r *Runner) Usable(ctx context.Context) error {
	_, err := r.usable(ctx)
	return err
}

func (r *Runner) usable(ctx context.Context) (path string, err error) {
	if path, err = Locate(r.config.Path); err != nil {
		return "", err
	}
	if err := r.config.checkMCP(); err != nil {
		return "", fmt.Errorf("the MCP configuration cannot be read: %w", err)
	}
	_, err = r.versions.get(ctx, path, func() (string, error) { return identify(ctx, r.config, path) })
	return path, err
}

// Setup returns how claude runs here, as far as that can be told without running it more often than
// its file changes.
func (r *Runner) Setup(ctx context.Context) bloom.WorkerSetup {
	s := bloom.WorkerSetup{Folder: r.config.Workdir, PerContext: r.config.WorkdirPerContext, PermissionMode: r.config.PermissionMode, Login: loginOf(r.config)}
	if path, err := Locate(r.config.Path); err == nil {
		if version, err := r.versions.get(ctx, path, func() (string, error) { return identify(ctx, r.config, path) }); err == nil {
			s.Claude, _, _ = strings.Cut(version, " ")
		}
	}
	return s
}

// has reports whether the program's help lists the option. Versions differ, and an unknown
// option makes a run fail.
func (r *Runner) has(ctx context.Context, path, option string) bool {
	help, err := r.help.get(ctx, path, func() (string, error) {
		help, _, err := runClaude(ctx, r.config, path, "--help")
		return help, err
	})
	return err == nil && strings.Contains(help, option)
}

// fileCache caches a program's output until its file changes. It is safe for concurrent
// use.
type fileCache struct {
	failureTTL time.Duration // how long a failure is cached

	made   sync.Once
	turn   chan struct{} // holds a token while a caller uses the rest
	key    string        // path, modification time and size
	answer string
	err    error
	failed time.Time // when err came
}

func (p *fileCache) get(ctx context.Context, path string, runClaude func() (string, error)) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %d", path, info.ModTime().UnixNano(), info.Size())
	// A program that hangs must not hold up a task that is cancelled or out of time.
	p.made.Do(func() { p.turn = make(chan struct{}, 1) })
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if p.key == key && (p.err == nil || time.Since(p.failed) < p.failureTTL) {
		return p.answer, p.err
	}
	answer, err := runClaude()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	p.key, p.answer, p.err, p.failed = key, answer, err, time.Now()
	return answer, err
}
