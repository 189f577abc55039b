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
		Transcripts(ctx context.Context, after string, limit int, local bool) ([]bloom.ContextTranscript, error)
		Transcript(ctx context.Context, contextID string) (*bloom.Transcript, error)
		MovePart(ctx context.Context, contextID, from, to string) error
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

// Mover takes the content of artifacts and contexts to where it belongs. All methods may be called by many
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
		res.Changed, res.Detail = int(did.Moved), fmt.Sprintf("moved %d objects to the object storage", did.Moved)
		return res, err
	})
}

// moveFails is how many failures in a row are taken to mean that the storage is away.
const moveFails = 3

// Move moves the artifacts and the parts of contexts that wait for it, or all that lie
// somewhere else; those of another server's folder are left to it. tell, if not nil, hears
// of the progress. It can be repeated at any time and goes on where it was stopped.
func (m *Mover) Move(ctx context.Context, all bool, tell func(bloom.MoveReport)) (bloom.MoveReport, error) {
	if m.c.Upload == nil {
		return bloom.MoveReport{}, bloom.Conflict("No object storage is configured to move artifacts to")
	}
	if tell == nil {
		tell = func(bloom.MoveReport) {}
	}
	r := &moving{Mover: m, tell: tell}
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
	failed int // in a row
	tell   func(bloom.MoveReport)
}

func (r *moving) artifacts(ctx context.Context, all bool) error {
	q := bloom.ArtifactQuery{Displaced: !all, Page: bloom.Page{Limit: 100, TextBytes: 1}}
	for {
		list, next, err := r.c.Store.Artifacts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range list {
			if r.did.Examined++; a.URL != nil && r.c.Placed(*a.URL) {
				continue
			}
			if err := r.count(ctx, r.one(ctx, a.ID), a.Size, "artifact_id", a.ID); err != nil {
				return err
			}
		}
		if r.tell(r.did); next == (bloom.Cursor{}) {
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
			for _, p := range t.Places() {
				if r.c.Placed(p.URL) {
					continue
				}
				if err := r.count(ctx, r.part(ctx, t.ContextID, p.TranscriptPart), p.Size, "context_id", t.ContextID); err != nil {
					return err
				}
			}
		}
		if r.tell(r.did); len(list) < contextPage {
			return nil
		}
	}
}

// count notes how one move went. It fails when the storage seems to be away.
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
		r.log.WarnContext(ctx, "content could not be moved and will be tried again", kind, id, "error", err)
		if r.failed++; r.failed == moveFails || ctx.Err() != nil {
			return err
		}
	}
	return nil
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
	key := "artifacts/" + a.TaskID + "/" + a.ID + m.today()
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
	m.discard(ctx, *a.URL)
	return nil
}

// today ends the key of an upload: the day keeps a sweep from taking it for an older one.
// See Orphans.
func (m *Mover) today() string { return "-" + m.c.Clock.Now().UTC().Format("20060102") }

// discard deletes content that was moved.
func (m *Mover) discard(ctx context.Context, url string) {
	if err := m.c.Blobs.Delete(ctx, url); err != nil {
		m.log.WarnContext(ctx, "content that was moved could not be deleted and waits for the sweep", "url", url, "error", err)
	}
}

// part moves a part of a context's transcript or working folder as one moves an artifact.
func (m *Mover) part(ctx context.Context, contextID string, p bloom.TranscriptPart) error {
	_, after, found := strings.Cut(p.URL, "transcripts/")
	sum := bloom.PartDigest(p.URL)
	if !found || sum == "" {
		return fmt.Errorf("%q is no part of a transcript", p.URL)
	}
	content, err := m.c.Blobs.Open(ctx, p.URL)
	if bloom.KindOf(err) == bloom.KindNotFound {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	defer content.Close()
	end := strings.Index(after, sum) + len(sum)
	url, err := m.c.Upload(ctx, "transcripts/"+after[:end]+m.today(), content, p.Size, sum)
	if err != nil {
		return err
	}
	switch err := m.c.Store.MovePart(ctx, contextID, p.URL, url); {
	case bloom.KindOf(err) == bloom.KindConflict:
		return errElsewhere // its upload is swept
	case err != nil:
		return err
	}
	m.discard(ctx, p.URL)
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
