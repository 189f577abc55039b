package cli

import (
	"context"
	"fmt"
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
func resolve(given, kind string, ending func(short string, p bloom.Page) ([]string, error)) (string, error) {
	if !shortID.MatchString(given) {
		return given, nil
	}
	ids, err := ending(strings.ToLower(given), bloom.Page{Limit: mostSame})
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("no %s has an id that ends in %s", kind, given)
	case len(ids) > 1:
		return "", usagef("%s is the end of several ids; give one of them:\n  %s", given, strings.Join(ids, "\n  "))
	}
	return ids[0], nil
}

// ends returns the ids of a list that end in short: a server that does not know the filter sends
// the newest entries.
func ends[T any](list []T, err error, short string, id func(T) string) ([]string, error) {
	var ids []string
	for _, one := range list {
		if strings.HasSuffix(id(one), short) {
			ids = append(ids, id(one))
		}
	}
	return ids, err
}

// findTask returns the id of a task given as its id or the end of it.
func findTask(ctx context.Context, api *client.Client, given string) (string, error) {
	return resolve(given, "task", func(short string, p bloom.Page) ([]string, error) {
		list, _, err := api.Tasks(ctx, bloom.TaskQuery{ShortID: short, Page: p})
		return ends(list, err, short, func(t bloom.Task) string { return t.ID })
	})
}

// findArtifact returns the id of an artifact.
func findArtifact(ctx context.Context, api *client.Client, given string) (string, error) {
	return resolve(given, "artifact", func(short string, p bloom.Page) ([]string, error) {
		list, _, err := api.Artifacts(ctx, bloom.ArtifactQuery{ShortID: short, Page: p})
		return ends(list, err, short, func(a bloom.Artifact) string { return a.ID })
	})
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
	return resolve(given, "context", func(short string, p bloom.Page) ([]string, error) {
		list, _, err := api.Contexts(ctx, bloom.ContextQuery{ShortID: short, Page: p})
		return ends(list, err, short, func(x bloom.Context) string { return x.ID })
	})
}

// find replaces the end of a task's id by the whole.
func (t *taskID) find(inv *invocation, api *client.Client) (err error) {
	t.ID, err = findTask(inv.ctx, api, t.ID)
	return err
}
