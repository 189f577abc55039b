package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Defaults of Orphans.
const (
	DefaultOrphansEvery = 6 * time.Hour
	// OrphanAge is the minimum age of content to delete. A completion uploads its content
	// before it commits, for at most a day, so older content belongs to no pending
	// completion.
	OrphanAge = 30 * time.Hour
)

// Uploads lists and deletes content in the blob store; bloom.Blobs implements it.
type Uploads interface {
	List(ctx context.Context, prefix string, fn func(url string, age time.Duration) error) error
	// Delete deletes content. Missing content is not an error.
	Delete(ctx context.Context, url string) error
}

// OrphansConfig is what Orphans needs. Store and Blobs are required.
type OrphansConfig struct {
	Store interface {
		Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
		TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error)
	}
	Blobs  Uploads
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultOrphansEvery when 0
}

// NewOrphans makes the loop that deletes content which was uploaded for completions that
// were never committed. It never deletes content of an artifact or a transcript.
func NewOrphans(c OrphansConfig) *Loop {
	return newLoop("orphans", cmp.Or(c.Every, DefaultOrphansEvery), c.Logger, c.once)
}

// contentKind is a kind of content, with keys of the form PREFIX OWNER/NAME.
type contentKind struct {
	prefix string
	length int // of an owner's name, in characters
}

var (
	artifactContent = contentKind{"artifacts/", 36}   // of a task
	partContent     = contentKind{"transcripts/", 32} // of a context's folder
	contentKinds    = []contentKind{artifactContent, partContent}
)

// owner returns the owner of the content at url; ok is false if it is not of the kind.
func (k contentKind) owner(url string) (owner string, ok bool) {
	_, after, found := strings.Cut(url, k.prefix)
	owner, name, deeper := strings.Cut(after, "/")
	return owner, found && deeper && len(owner) == k.length && name != "" && !strings.Contains(name, "/")
}

func (c *OrphansConfig) once(ctx context.Context) (res Result, err error) {
	if err = c.sweep(ctx, artifactContent, c.artifactHas, &res); err == nil {
		err = c.sweep(ctx, partContent, c.contextHas, &res)
	}
	res.Detail = fmt.Sprintf("deleted %d orphaned uploads", res.Changed)
	return res, err
}

// sweep deletes the orphaned content of one kind.
func (c *OrphansConfig) sweep(ctx context.Context, kind contentKind, named func(ctx context.Context, owner, url string) (bool, error), res *Result) error {
	return c.Blobs.List(ctx, kind.prefix, func(url string, age time.Duration) error {
		owner, ok := kind.owner(url)
		if !ok || age < OrphanAge {
			return nil
		}
		is, err := named(ctx, owner, url)
		if err != nil || is {
			return err
		}
		res.Changed++
		return c.Blobs.Delete(ctx, url)
	})
}

// artifactHas reports whether an artifact of the task has the content.
func (c *OrphansConfig) artifactHas(ctx context.Context, task, url string) (bool, error) {
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

// contextHas reports whether a context's transcript or working folder has the part.
func (c *OrphansConfig) contextHas(ctx context.Context, folder, url string) (bool, error) {
	t, err := c.Store.TranscriptIn(ctx, folder)
	return err == nil && t != nil && slices.Contains(t.URLs(), url), err
}
