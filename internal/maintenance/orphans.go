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
		TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error)
	}
	Blobs  Uploads
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultOrphansEvery when 0
}

// NewOrphans makes the loop that deletes content which was uploaded for completions
// that were never recorded. It never deletes what an artifact or a transcript names.
func NewOrphans(c OrphansConfig) *Loop {
	return newLoop("orphans", cmp.Or(c.Every, DefaultOrphansEvery), c.Logger, c.once)
}

// sweptKind is a kind of content whose keys are PREFIX OWNER/NAME.
type sweptKind struct {
	prefix string
	length int // of an owner's name, in characters
}

var (
	sweptArtifacts = sweptKind{"artifacts/", 36}   // of a task
	sweptParts     = sweptKind{"transcripts/", 32} // of a context's folder
	sweptKinds     = []sweptKind{sweptArtifacts, sweptParts}
)

// owner is whose content lies at url; ok is false for what is not of the kind.
func (k sweptKind) owner(url string) (owner string, ok bool) {
	_, after, found := strings.Cut(url, k.prefix)
	owner, name, deeper := strings.Cut(after, "/")
	return owner, found && deeper && len(owner) == k.length && name != "" && !strings.Contains(name, "/")
}

func (c *OrphansConfig) once(ctx context.Context) (res Result, err error) {
	if err = c.sweep(ctx, sweptArtifacts, c.named, &res); err == nil {
		err = c.sweep(ctx, sweptParts, c.spoken, &res)
	}
	res.Detail = fmt.Sprintf("deleted %d uploads that nothing names", res.Changed)
	return res, err
}

// sweep deletes what nothing names of one kind.
func (c *OrphansConfig) sweep(ctx context.Context, kind sweptKind, named func(ctx context.Context, owner, url string) (bool, error), res *Result) error {
	return c.Blobs.List(ctx, kind.prefix, func(url string, age time.Duration) error {
		owner, ours := kind.owner(url)
		if !ours || age < OrphanAge {
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

// spoken reports whether a context's transcript or working folder has the part.
func (c *OrphansConfig) spoken(ctx context.Context, folder, url string) (bool, error) {
	t, err := c.Store.TranscriptIn(ctx, folder)
	return err == nil && t != nil && slices.Contains(t.URLs(), url), err
}
