package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// DefaultMoverEvery is how often is looked for artifacts that have to be moved. With
// none that is one short read.
const DefaultMoverEvery = 30 * time.Second

// MoverConfig is what a Mover needs. Store and Blobs are required.
type MoverConfig struct {
	Store interface {
		Artifact(ctx context.Context, id string) (bloom.Artifact, error)
		Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
		MoveArtifact(ctx context.Context, id string, from *string, to string) error
	}
	// Blobs opens and deletes content where it lies.
	Blobs bloom.Blobs
	// Upload puts content where it belongs and nowhere else; nil where there is no such
	// place, then there is nothing to move.
	Upload func(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Placed reports whether url is where content belongs.
	Placed func(url string) bool
	Clock  bloom.Clock   // bloom.SystemClock when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultMoverEvery when 0
	// Moved, when not nil, hears of every artifact, for metrics: nil for one that was
	// moved, else why it was not.
	Moved func(error)
}

// Mover takes artifacts' content to where it belongs. All methods may be called by many
// goroutines at once.
type Mover struct {
	c   MoverConfig
	log *slog.Logger
}

// NewMover makes a mover.
func NewMover(c MoverConfig) *Mover {
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mover{c: c, log: c.Logger}
}

// Loop makes the loop that moves what could not be placed when its task ended.
func (m *Mover) Loop() *Loop {
	return newLoop("mover", cmp.Or(m.c.Every, DefaultMoverEvery), m.c.Logger, func(ctx context.Context) (res Result, err error) {
		did, err := m.Move(ctx, false, nil)
		res.Changed, res.Detail = int(did.Moved), fmt.Sprintf("moved %d artifacts to the object storage", did.Moved)
		return res, err
	})
}

// moveFails is how many failures in a row are taken to mean that the storage is away.
const moveFails = 3

// Move moves the artifacts that wait for it, or all that lie somewhere else; those of
// another server's folder are left to it. tell, if not nil, hears of the progress. It
// can be repeated at any time and goes on where it was stopped.
func (m *Mover) Move(ctx context.Context, all bool, tell func(bloom.MoveReport)) (did bloom.MoveReport, err error) {
	if m.c.Upload == nil {
		return did, bloom.Conflict("No object storage is configured to move artifacts to")
	}
	q, failed := bloom.ArtifactQuery{Displaced: !all, Page: bloom.Page{Limit: 100, TextBytes: 1}}, 0
	for {
		list, next, err := m.c.Store.Artifacts(ctx, q)
		if err != nil {
			return did, err
		}
		for _, a := range list {
			if did.Examined++; a.URL != nil && m.c.Placed(*a.URL) {
				continue
			}
			err := m.one(ctx, a.ID)
			if m.c.Moved != nil && !errors.Is(err, errElsewhere) {
				m.c.Moved(err)
			}
			switch {
			case err == nil:
				did.Moved, did.Bytes, failed = did.Moved+1, did.Bytes+a.Size, 0
			case errors.Is(err, errElsewhere):
				did.Skipped++
			default:
				did.Failed++
				m.log.WarnContext(ctx, "an artifact could not be moved and will be tried again", "artifact_id", a.ID, "error", err)
				if failed++; failed == moveFails || ctx.Err() != nil {
					return did, err
				}
			}
		}
		if tell != nil {
			tell(did)
		}
		if next == (bloom.Cursor{}) {
			return did, nil
		}
		q.Cursor = next
	}
}

// errElsewhere: another server has the content, or it needs no moving any more.
var errElsewhere = errors.New("the content is not here")

// one moves one artifact: upload and verify, change the row in one step, delete what
// lay here. A crash leaves an upload that no row names, or a file that none does: both
// are swept.
func (m *Mover) one(ctx context.Context, id string) error {
	a, err := m.c.Store.Artifact(ctx, id)
	switch {
	case bloom.KindOf(err) == bloom.KindNotFound:
		return errElsewhere // removed since
	case err != nil:
		return err
	case a.URL != nil && m.c.Placed(*a.URL):
		return errElsewhere // another mover was faster
	case a.URL == nil && a.Content == nil && a.Size > 0:
		return fmt.Errorf("artifact %s has lost its content", id)
	}
	content, err := m.open(ctx, a)
	if err != nil {
		return err
	}
	defer content.Close()
	// The day keeps a sweep from taking it for an old upload: see maintenance.Orphans.
	key := "artifacts/" + a.TaskID + "/" + a.ID + "-" + m.c.Clock.Now().UTC().Format("20060102")
	url, err := m.c.Upload(ctx, key, content, a.Size, a.SHA256)
	if err != nil {
		return err
	}
	switch err := m.c.Store.MoveArtifact(ctx, a.ID, a.URL, url); {
	case bloom.KindOf(err) == bloom.KindNotFound || bloom.KindOf(err) == bloom.KindConflict:
		return errElsewhere // its upload, if nothing names it, is swept
	case err != nil:
		return err
	case a.URL == nil || *a.URL == url: // what the row names now is never deleted
		return nil
	}
	if err := m.c.Blobs.Delete(ctx, *a.URL); err != nil {
		m.log.WarnContext(ctx, "content that was moved could not be deleted and waits for the sweep", "url", *a.URL, "error", err)
	}
	return nil
}

func (m *Mover) open(ctx context.Context, a bloom.Artifact) (io.ReadCloser, error) {
	if a.URL == nil {
		text := ""
		if a.Content != nil {
			text = *a.Content
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	content, err := m.c.Blobs.Open(ctx, *a.URL)
	if bloom.KindOf(err) == bloom.KindNotFound {
		return nil, errElsewhere // in the folder of another server, or missing: verify tells
	}
	return content, err
}
