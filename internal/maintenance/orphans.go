package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of Orphans.
const (
	DefaultOrphansEvery = 6 * time.Hour
	// OrphanAge is the minimum age of content to delete. A completion uploads its content
	// before it commits, for at most a day, so older content belongs to no pending
	// completion.
	OrphanAge = 30 * time.Hour
)

// Uploads lists and deletes content in a blob store; blob.Blobs implements it.
type Uploads interface {
	List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error
	// Delete deletes content. Missing content is not an error.
	Delete(ctx context.Context, url string) error
}

// OrphansConfig is what Orphans needs. Store and Uploads are required.
type OrphansConfig struct {
	Name  string // of the loop
	Store interface {
		Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
		TranscriptIn(ctx context.Context, folder string) (*contract.Transcript, error)
	}
	Uploads []Uploads
	// Since is when the first content may have been uploaded.
	Since time.Time
	// Ours, if not nil, reports whether content may be deleted. It is called before each run.
	Ours   func(context.Context) (bool, error)
	Clock  timing.Clock  // timing.System when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultOrphansEvery when 0
}

// NewOrphans makes the loop that deletes content which was uploaded for completions that
// were never committed. It never deletes content of an artifact or a transcript. A run reads
// the uploads of a few days, so that its cost does not grow with what is stored.
func NewOrphans(c OrphansConfig) *Loop {
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	return newLoop(c.Name, cmp.Or(c.Every, DefaultOrphansEvery), c.Logger, c.once)
}

func (c *OrphansConfig) once(ctx context.Context) (res Result, err error) {
	if c.Ours != nil {
		if ours, err := c.Ours(ctx); err != nil || !ours {
			return res, err
		}
	}
	for _, day := range c.days() {
		for _, place := range c.Uploads {
			s := &sweep{OrphansConfig: c, place: place}
			err := place.List(ctx, day, func(url, key string, age time.Duration) error { return s.examine(ctx, url, key, age) })
			if res.Changed += s.deleted; err != nil {
				return res, err
			}
		}
	}
	res.Detail = fmt.Sprintf("deleted %d orphaned uploads", res.Changed)
	return res, nil
}

// days returns the days to sweep: the two latest whose uploads are all old enough, and an earlier one
// chosen at random, for content that has become unused since.
func (c *OrphansConfig) days() (days []string) {
	const day = 24 * time.Hour
	latest := c.Clock.Now().Add(-day - OrphanAge)
	n := int(latest.Sub(c.Since)/day) + 2 // the first and the last may be incomplete
	for back := range min(n, 2) {
		days = append(days, blob.Day(latest.Add(-time.Duration(back)*day)))
	}
	if n > 2 {
		days = append(days, blob.Day(latest.Add(-time.Duration(2+rand.IntN(n-2))*day)))
	}
	return days
}

// Kinds of content, with keys of the form KIND/OWNER/NAME.
const (
	artifactContent = "artifacts"   // of a task
	partContent     = "transcripts" // of a context's folder
)

// ownerOf returns the kind and the owner of content, both empty for other keys.
func ownerOf(key string) (kind, owner string) {
	kind, rest, _ := strings.Cut(key, "/")
	owner, name, deeper := strings.Cut(rest, "/")
	length := map[string]int{artifactContent: 36, partContent: 32}[kind]
	if !deeper || len(owner) != length || name == "" || strings.Contains(name, "/") {
		return "", ""
	}
	return kind, owner
}

// sweep deletes the orphaned content of a place and a day.
type sweep struct {
	*OrphansConfig
	place   Uploads
	deleted int

	of   string          // the kind and the owner that named is of: lists are sorted
	uses map[string]bool // the URLs that the owner uses
}

func (s *sweep) examine(ctx context.Context, url, key string, age time.Duration) error {
	kind, owner := ownerOf(key)
	if kind == "" || age < OrphanAge {
		return nil
	}
	// Content this old does not become used, so the owner need not be read for each of it.
	if of := kind + "/" + owner; s.of != of {
		uses, err := s.usedBy(ctx, kind, owner)
		if err != nil {
			return err
		}
		s.of, s.uses = of, uses
	}
	if s.uses[url] {
		return nil
	}
	s.deleted++
	return s.place.Delete(ctx, url)
}

// usedBy returns the URLs of the content that a task's artifacts, or a context's transcript and
// working folder, have.
func (s *sweep) usedBy(ctx context.Context, kind, owner string) (map[string]bool, error) {
	uses := map[string]bool{}
	if kind == partContent {
		t, err := s.Store.TranscriptIn(ctx, owner)
		if err != nil || t == nil {
			return uses, err
		}
		for _, url := range t.URLs() {
			uses[url] = true
		}
		return uses, nil
	}
	q := bloom.ArtifactQuery{TaskID: owner, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}}
	for {
		list, next, err := s.Store.Artifacts(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.URL != nil {
				uses[*a.URL] = true
			}
		}
		if next == (bloom.Cursor{}) {
			return uses, nil
		}
		q.Cursor = next
	}
}
