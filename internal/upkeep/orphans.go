package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Defaults of Orphans.
const (
	DefaultOrphansEvery = 6 * time.Hour
	// OrphanAge is how old content has to be that no artifact names. A completion
	// uploads first and commits second, and uploads under a key for at most a day:
	// what is this old is on no completion's way any more.
	OrphanAge = 30 * time.Hour
)

// Uploads lists and deletes what lies in the blob store.
type Uploads interface {
	// List is that of bloom.Blobs.
	List(ctx context.Context, prefix string, fn func(url string, age time.Duration) error) error
	// Delete removes content; what is not there is no error.
	Delete(ctx context.Context, url string) error
}

// OrphansConfig is what Orphans needs. Store and Blobs are required.
type OrphansConfig struct {
	Store interface {
		Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
	}
	Blobs  Uploads
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultOrphansEvery when 0
}

// NewOrphans makes the loop that deletes content which was uploaded for completions
// that were never recorded. It never deletes what an artifact names.
func NewOrphans(c OrphansConfig) *Loop {
	return newLoop("orphans", cmp.Or(c.Every, DefaultOrphansEvery), c.Logger, c.once)
}

func (c *OrphansConfig) once(ctx context.Context) (res Result, err error) {
	err = c.Blobs.List(ctx, "artifacts/", func(url string, age time.Duration) error {
		task, ours := taskOf(url)
		if !ours || age < OrphanAge {
			return nil
		}
		named, err := c.named(ctx, task, url)
		if err != nil || named {
			return err
		}
		res.Changed++
		return c.Blobs.Delete(ctx, url)
	})
	res.Detail = fmt.Sprintf("deleted %d uploads that no artifact names", res.Changed)
	return res, err
}

// named reports whether an artifact of the task names the content.
func (c *OrphansConfig) named(ctx context.Context, task, url string) (bool, error) {
	q := bloom.ArtifactQuery{TaskID: task, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}}
	for {
		list, next, err := c.Store.Artifacts(ctx, q)
		if err != nil {
			return false, err
		}
		for _, a := range list {
			if a.URL != nil && *a.URL == url {
				return true, nil
			}
		}
		if next == (bloom.Cursor{}) {
			return false, nil
		}
		q.Cursor = next
	}
}

// taskOf is the task in a key "…artifacts/TASK/NAME".
func taskOf(url string) (task string, ok bool) {
	_, after, found := strings.Cut(url, "artifacts/")
	task, name, deeper := strings.Cut(after, "/")
	return task, found && deeper && len(task) == 36 && name != "" && !strings.Contains(name, "/")
}
