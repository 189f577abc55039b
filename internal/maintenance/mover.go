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
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// DefaultMoverEvery is how often the mover looks for content to move. If there is none,
// that is one short read.
const DefaultMoverEvery = 30 * time.Second

// MoverConfig is what a Mover needs. Store and Blobs are required.
type MoverConfig struct {
	Store interface {
		Artifact(ctx context.Context, id string) (bloom.Artifact, error)
		Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
		MoveArtifact(ctx context.Context, id string, from *string, to string) error
		Transcripts(ctx context.Context, after string, limit int, local bool) ([]contract.ContextTranscript, error)
		Transcript(ctx context.Context, contextID string) (*contract.Transcript, error)
		MovePart(ctx context.Context, contextID, from, to string) error
	}
	// Blobs opens and deletes content in all places.
	Blobs blob.Blobs
	// Upload puts content into the object storage; nil if none is configured.
	Upload func(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Placed reports whether url is in that object storage.
	Placed func(url string) bool
	Clock  timing.Clock  // timing.System when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultMoverEvery when 0
	// Moved, if not nil, is called with the result of every move, for metrics.
	Moved func(error)
}

// Mover moves the content of artifacts and contexts to the object storage. Its methods are
// safe for concurrent use.
type Mover struct {
	c   MoverConfig
	log *slog.Logger
}

// NewMover makes a mover.
func NewMover(c MoverConfig) *Mover {
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mover{c: c, log: c.Logger}
}

// Loop returns the loop that moves content which could not be uploaded when its task ended.
func (m *Mover) Loop() *Loop {
	return newLoop("mover", cmp.Or(m.c.Every, DefaultMoverEvery), m.c.Logger, func(ctx context.Context) (res Result, err error) {
		did, err := m.Move(ctx, false, nil)
		res.Changed, res.Detail = int(did.Moved), fmt.Sprintf("moved %d objects to the object storage", did.Moved)
		return res, err
	})
}

// moveFails is the number of consecutive failures after which Move gives up.
const moveFails = 3

// Move moves the content that waits for it or, with all, everything that is not in the
// object storage. It skips content in another server's folder. report, if not nil, is
// called with the progress. An interrupted Move can be repeated at any time.
func (m *Mover) Move(ctx context.Context, all bool, report func(bloom.MoveReport)) (bloom.MoveReport, error) {
	if m.c.Upload == nil {
		return bloom.MoveReport{}, bloom.Conflict("No object storage is configured to move artifacts to")
	}
	if report == nil {
		report = func(bloom.MoveReport) {}
	}
	r := &moving{Mover: m, report: report}
	err := r.artifacts(ctx, all)
	if err == nil {
		err = r.contexts(ctx, all)
	}
	return r.did, err
}

// moving is one run of Move.
type moving struct {
	*Mover
	did    bloom.MoveReport
	failed int // consecutive failures
	report func(bloom.MoveReport)
}

func (r *moving) artifacts(ctx context.Context, all bool) error {
	q := bloom.ArtifactQuery{PendingUpload: !all, Page: bloom.Page{Limit: 100, TextBytes: 1}}
	for {
		list, next, err := r.c.Store.Artifacts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range list {
			if r.did.Examined++; a.URL != nil && r.c.Placed(*a.URL) {
				continue
			}
			if err := r.count(ctx, r.moveArtifact(ctx, a.ID), a.Size, "artifact_id", a.ID); err != nil {
				return err
			}
		}
		if r.report(r.did); next == (bloom.Cursor{}) {
			return nil
		}
		q.Cursor = next
	}
}

// contextPage is how many contexts are read at once.
const contextPage = 100

func (r *moving) contexts(ctx context.Context, all bool) error {
	for after := ""; ; {
		list, err := r.c.Store.Transcripts(ctx, after, contextPage, !all)
		if err != nil {
			return err
		}
		for _, t := range list {
			after = t.ContextID
			r.did.Contexts++
			for _, p := range t.AllParts() {
				if r.c.Placed(p.URL) {
					continue
				}
				if err := r.count(ctx, r.movePart(ctx, t.ContextID, p.TranscriptPart), p.Size, "context_id", t.ContextID); err != nil {
					return err
				}
			}
		}
		if r.report(r.did); len(list) < contextPage {
			return nil
		}
	}
}

// count counts the result of one move. It fails if the storage seems to be unavailable.
func (r *moving) count(ctx context.Context, err error, size int64, kind, id string) error {
	if r.c.Moved != nil && !errors.Is(err, errElsewhere) {
		r.c.Moved(err)
	}
	switch {
	case err == nil:
		r.did.Moved, r.did.Bytes, r.failed = r.did.Moved+1, r.did.Bytes+size, 0
	case errors.Is(err, errElsewhere):
		r.did.Skipped++
	default:
		r.did.Failed++
		r.log.WarnContext(ctx, "content could not be moved; retrying later", kind, id, "error", err)
		if r.failed++; r.failed == moveFails || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// errElsewhere means that another server has the content, or that it was moved already.
var errElsewhere = errors.New("the content is not here")

// moveArtifact uploads an artifact's content, updates its row, then deletes the old
// content. After a crash in between, Orphans deletes the upload or the old content.
func (m *Mover) moveArtifact(ctx context.Context, id string) error {
	a, err := m.c.Store.Artifact(ctx, id)
	switch {
	case bloom.KindOf(err) == bloom.KindNotFound:
		return errElsewhere // removed in the meantime
	case err != nil:
		return err
	case a.URL != nil && m.c.Placed(*a.URL):
		return errElsewhere // moved by another mover
	case a.URL == nil && a.Content == nil && a.Size > 0:
		return fmt.Errorf("artifact %s has lost its content", id)
	}
	content, err := m.open(ctx, a)
	if err != nil {
		return err
	}
	defer content.Close()
	key := "artifacts/" + a.TaskID + "/" + a.ID + m.dateSuffix()
	url, err := m.c.Upload(ctx, key, content, a.Size, a.SHA256)
	if err != nil {
		return err
	}
	switch err := m.c.Store.MoveArtifact(ctx, a.ID, a.URL, url); {
	case bloom.KindOf(err) == bloom.KindNotFound || bloom.KindOf(err) == bloom.KindConflict:
		return errElsewhere // Orphans deletes the upload
	case err != nil:
		return err
	case a.URL == nil || *a.URL == url: // never delete what the row names now
		return nil
	}
	m.discard(ctx, *a.URL)
	return nil
}

// dateSuffix is the end of an upload's key. It keeps Orphans from taking the upload for an
// older one.
func (m *Mover) dateSuffix() string { return "-" + m.c.Clock.Now().UTC().Format("20060102") }

// discard deletes content that was moved.
func (m *Mover) discard(ctx context.Context, url string) {
	if err := m.c.Blobs.Delete(ctx, url); err != nil {
		m.log.WarnContext(ctx, "the old copy of moved content could not be deleted; the orphans loop will delete it", "url", url, "error", err)
	}
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
		return nil, errElsewhere // in another server's folder, or missing, which Verify reports
	}
	return content, err
}
