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
)

// MinVersion is the oldest claude that a worker takes tasks with: none older was tried.
const MinVersion = "2.1.197"

// unusableFor is how long a program that is not usable is not asked again.
const unusableFor = 2 * time.Second

// Unusable says that a program is there, but that no task can be run with it.
type Unusable struct {
	Path string
	Why  string // what is wrong with it
	Fix  string // what to do, as an order
}

func (e *Unusable) Error() string { return e.Why + "; " + e.Fix }

// versionLine is how claude answers --version; what wraps it may print more.
var versionLine = regexp.MustCompile(`(?m)^((\d+)\.(\d+)\.(\d+)\S*) \(Claude Code\)\s*$`)

// identify asks the program at path for its version. It fails with *Unusable when the
// program is not claude, or too old.
func identify(ctx context.Context, c Config, path string) (string, error) {
	said, exit, err := ask(ctx, c, path, "--version")
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", &Unusable{path, err.Error(), "run " + path + " --version and see what it says; reinstall it"}
	}
	version := versionLine.FindStringSubmatch(said)
	switch {
	case version == nil && exit.Code != 0:
		return "", &Unusable{path, fmt.Sprintf("%s --version ended with code %d", path, exit.Code), "run it and see what it says; reinstall it"}
	case version == nil:
		first, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
		return "", &Unusable{path, fmt.Sprintf("%s is not claude: it answers --version with %q", path, clip(first, 80)),
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

// Usable says why no task can be run with the claude program now, nil when one can. It
// asks the program itself only when its file has changed since it was usable, and every
// few seconds while it is not.
func (r *Runner) Usable(ctx context.Context) error {
	_, err := r.usable(ctx)
	return err
}

func (r *Runner) usable(ctx context.Context) (path string, err error) {
	if path, err = Locate(r.config.Path); err != nil {
		return "", err
	}
	_, err = r.versions.get(ctx, path, func() (string, error) { return identify(ctx, r.config, path) })
	return path, err
}

// has reports whether the binary's help names the option: versions differ, and an
// unknown option ends the run. A binary that does not answer has none.
func (r *Runner) has(ctx context.Context, path, option string) bool {
	help, err := r.help.get(ctx, path, func() (string, error) {
		help, _, err := ask(ctx, r.config, path, "--help")
		return help, err
	})
	return err == nil && strings.Contains(help, option)
}

// perFile caches what a program answered until its file changes. Its methods may be
// called by several goroutines.
type perFile struct {
	hold time.Duration // how long a failure is cached

	mu     sync.Mutex
	key    string // path, modification time and size
	answer string
	err    error
	failed time.Time // when err came
}

func (p *perFile) get(ctx context.Context, path string, ask func() (string, error)) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %d", path, info.ModTime().UnixNano(), info.Size())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key == key && (p.err == nil || time.Since(p.failed) < p.hold) {
		return p.answer, p.err
	}
	answer, err := ask()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	p.key, p.answer, p.err, p.failed = key, answer, err, time.Now()
	return answer, err
}
