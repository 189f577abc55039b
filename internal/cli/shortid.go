package cli

import (
	"context"
	"fmt"
	"iter"
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

// findTask returns the id of a task given as its id or the end of it.
func findTask(ctx context.Context, api *client.Client, given string) (string, error) {
	return resolve(given, "task", func(short string) iter.Seq2[bloom.Task, error] {
		return api.AllTasks(ctx, bloom.TaskQuery{ShortID: short})
	}, func(t bloom.Task) string { return t.ID })
}

// findArtifact returns the id of an artifact.
func findArtifact(ctx context.Context, api *client.Client, given string) (string, error) {
	return resolve(given, "artifact", func(short string) iter.Seq2[bloom.Artifact, error] {
		return api.AllArtifacts(ctx, bloom.ArtifactQuery{ShortID: short})
	}, func(a bloom.Artifact) string { return a.ID })
}

// findContext returns the id of a context. Callers choose it, so it may look like the end of another.
func findContext(ctx context.Context, api *client.Client, given string) (string, error) {
	if !shortID.MatchString(given) {
		return given, nil
	}
	_, err := api.Context(ctx, given)
	if err == nil || bloom.KindOf(err) != bloom.KindNotFound {
		return given, err
	}
	return resolve(given, "context", func(short string) iter.Seq2[bloom.Context, error] {
		return api.AllContexts(ctx, bloom.ContextQuery{ShortID: short})
	}, func(x bloom.Context) string { return x.ID })
}

// find replaces the end of a task's id by the whole.
func (t *taskID) find(inv *invocation, api *client.Client) (err error) {
	t.ID, err = findTask(inv.ctx, api, t.ID)
	return err
}
