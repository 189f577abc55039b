package cli

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// shortID matches the end of an id, which is what the web application shows of it.
var shortID = regexp.MustCompile(`^[0-9A-Fa-f]{8}$`)

// mostSame is how many candidates of an ambiguous id are named.
const mostSame = 5

// resolve returns the whole id for the end of one. Any other text is returned as it is.
func resolve[T any](given, kind string, ending func(short string) iter.Seq2[T, error], id func(T) string) (string, error) {
	if !shortID.MatchString(given) {
		return given, nil
	}
	var ids []string
	for one, err := range ending(strings.ToLower(given)) {
		if err != nil {
			return "", err
		}
		if ids = append(ids, id(one)); len(ids) == mostSame {
			break
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("no %s has an id that ends in %s", kind, given)
	case 1:
		return ids[0], nil
	}
	return "", usagef("%s is the end of several ids; give one of them:\n  %s", given, strings.Join(ids, "\n  "))
}

// findTask returns the id of a task given as its id, the end of it, or @last.
func (r *remote) findTask(inv *invocation, api *client.Client, given string) (string, error) {
	if given == last {
		return r.last(inv)
	}
	if strings.HasPrefix(given, "@") {
		return "", usagef("%s is no task; did you mean %s?", given, last)
	}
	return resolve(given, "task", func(short string) iter.Seq2[bloom.Task, error] {
		return api.AllTasks(inv.ctx, bloom.TaskQuery{ShortID: short})
	}, func(t bloom.Task) string { return t.ID })
}

// findArtifact returns the id of an artifact.
func findArtifact(ctx context.Context, api *client.Client, given string) (string, error) {
	return resolve(given, "artifact", func(short string) iter.Seq2[bloom.Artifact, error] {
		return api.AllArtifacts(ctx, bloom.ArtifactQuery{ShortID: short})
	}, func(a bloom.Artifact) string { return a.ID })
}

// findContext returns the id of a context given as its id, its name, the end of its id, or @last.
// Callers choose ids, so one may look like the end of another.
func (r *remote) findContext(inv *invocation, api *client.Client, given string) (string, error) {
	if given == last {
		id, err := r.last(inv)
		if err != nil {
			return "", err
		}
		task, err := api.Task(inv.ctx, id)
		return task.ContextID, err
	}
	if given == "" {
		return "", nil
	}
	_, err := api.Context(inv.ctx, given)
	if err == nil || bloom.KindOf(err) != bloom.KindNotFound {
		return given, err
	}
	var named []string
	for x, err := range api.AllContexts(inv.ctx, bloom.ContextQuery{Text: given}) {
		if err != nil {
			return "", err
		}
		if x.Name == given {
			named = append(named, x.ID)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return "", usagef("%s is the name of several contexts; give the id of one of them:\n  %s", given, strings.Join(named[:min(len(named), mostSame)], "\n  "))
	}
	return resolve(given, "context", func(short string) iter.Seq2[bloom.Context, error] {
		return api.AllContexts(inv.ctx, bloom.ContextQuery{ShortID: short})
	}, func(x bloom.Context) string { return x.ID })
}

// find replaces the end of a task's id by the whole.
func (t *taskID) find(inv *invocation, r *remote, api *client.Client) (err error) {
	t.ID, err = r.findTask(inv, api, t.ID)
	return err
}

// last names the newest task that the user submitted to a server with the command line. The newest
// task of the server may be somebody else's, which nobody should cancel by this name.
const last = "@last"

// lastFile is where the id of that task is kept; "" without a home.
func (r *remote) lastFile(inv *invocation) string {
	dir, ok := inv.Env("XDG_STATE_HOME")
	if home, _ := inv.Env("HOME"); !ok || !filepath.IsAbs(dir) {
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "bloom", "last-task-"+url.QueryEscape(r.URL))
}

func (r *remote) last(inv *invocation) (string, error) {
	id, err := os.ReadFile(r.lastFile(inv))
	if err != nil {
		return "", usagef("%s: no task was submitted from here to %s", last, r.URL)
	}
	return strings.TrimSpace(string(id)), nil
}

// remember keeps the id of a new task. Without a place for it, there is no @last.
func (r *remote) remember(inv *invocation, id string) {
	if file := r.lastFile(inv); file != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		_ = os.WriteFile(file, []byte(id+"\n"), 0o600)
	}
}
