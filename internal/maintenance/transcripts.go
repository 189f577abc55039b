package maintenance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
)

// Defaults of Transcripts.
const (
	DefaultTranscriptsEvery = 10 * time.Second
	transcriptsAtOnce       = 4
	transcriptBatch         = 500 // tasks
	transcriptPage          = 256 // events
	// transcriptRest is how long a task is left alone whose transcript failed.
	transcriptRest = 10 * time.Minute
)

// TranscriptsConfig is what Transcripts needs. Store, Blobs and Dir are required.
type TranscriptsConfig struct {
	Store interface {
		Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error)
		DueTranscripts(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
		UntranscribedStreams(ctx context.Context, r bloom.RemoveRequest) (ids []string, next int64, more bool, err error)
		TranscribedTo(ctx context.Context, taskID string) (int64, error)
		AddTranscripts(ctx context.Context, r bloom.AddTranscripts) error
	}
	Blobs bloom.Blobs
	// Placed reports whether url is where content belongs; nil: everywhere.
	Placed func(url string) bool
	// Dir is for files that are being written; they have no name there.
	Dir    string
	Clock  bloom.Clock   // bloom.SystemClock when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultTranscriptsEvery when 0
	// Written, when not nil, hears of every task, for metrics: nil, or why its
	// transcript could not be written.
	Written func(error)
}

// Transcripts makes artifacts of runs' events: for each attempt its events as lines of
// JSON, as GET …/events has them, compressed. All methods may be called by many
// goroutines at once.
type Transcripts struct {
	c   TranscriptsConfig
	log *slog.Logger

	mu     sync.Mutex
	failed map[string]time.Time
}

// NewTranscripts makes Transcripts.
func NewTranscripts(c TranscriptsConfig) *Transcripts {
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Transcripts{c: c, log: c.Logger, failed: map[string]time.Time{}}
}

// Loop makes the loop that writes transcripts at the end of each run.
func (t *Transcripts) Loop() *Loop {
	return newLoop("transcripts", cmp.Or(t.c.Every, DefaultTranscriptsEvery), t.c.Logger, func(ctx context.Context) (res Result, err error) {
		for after := int64(0); ; { // those that rest or fail stay behind
			ids, next, err := t.c.Store.DueTranscripts(ctx, after, transcriptBatch)
			if err != nil {
				return res, err
			}
			written, err := t.writeAll(ctx, ids)
			res.Changed += written
			res.Detail = fmt.Sprintf("wrote transcripts of %d tasks", res.Changed)
			if err != nil || len(ids) < transcriptBatch {
				return res, err
			}
			after = next
		}
	})
}

// Keep writes the transcripts of the streams that RemoveEvents would find.
func (t *Transcripts) Keep(ctx context.Context, r bloom.RemoveRequest) error {
	ids, _, _, err := t.c.Store.UntranscribedStreams(ctx, r)
	if err == nil {
		_, err = t.writeAll(ctx, ids)
	}
	if errors.Is(err, bloom.ErrBlobsUnavailable) {
		t.log.WarnContext(ctx, "events are kept until their transcripts can be stored", "error", err)
		return nil
	}
	return err
}

// writeAll writes transcripts. One that fails does not hold up the others, unless the
// storage is away.
func (t *Transcripts) writeAll(ctx context.Context, ids []string) (written int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transcriptsAtOnce)
	var mu sync.Mutex
	for _, id := range ids {
		if t.resting(id) {
			continue
		}
		group.Go(func() error {
			err := t.Write(ctx, id)
			if t.c.Written != nil && ctx.Err() == nil {
				t.c.Written(err)
			}
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				written++
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, bloom.ErrBlobsUnavailable):
				return err
			default:
				t.rest(id)
				t.log.ErrorContext(ctx, "a transcript could not be written and will be tried again", "task_id", id, "error", err)
			}
			return nil
		})
	}
	err = group.Wait()
	return written, err
}

func (t *Transcripts) resting(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, failed := t.failed[id]
	if failed && t.c.Clock.Now().Sub(at) >= transcriptRest {
		delete(t.failed, id)
		return false
	}
	return failed
}

func (t *Transcripts) rest(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed[id] = t.c.Clock.Now()
}

// Write makes artifacts of the events of an ended task that do not lie in one yet: it
// uploads first and records second. A task that was requeued or removed meanwhile is
// left alone.
func (t *Transcripts) Write(ctx context.Context, taskID string) error {
	after, err := t.c.Store.TranscribedTo(ctx, taskID)
	if err != nil {
		return settled(err)
	}
	w := &transcriptWriter{t: t, taskID: taskID}
	add, err := w.write(ctx, after)
	if err = errors.Join(err, w.close()); err != nil {
		w.undo(ctx)
		return err
	}
	err = t.c.Store.AddTranscripts(ctx, add)
	if err != nil && settled(err) == nil { // else nobody knows: they may be recorded
		w.undo(ctx)
	}
	return settled(err)
}

// settled drops what says that there is nothing to do any more.
func settled(err error) error {
	if k := bloom.KindOf(err); err != nil && (k == bloom.KindNotFound || k == bloom.KindConflict) {
		return nil
	}
	return err
}

// transcriptWriter writes the transcripts of one task, one a run.
type transcriptWriter struct {
	t      *Transcripts
	taskID string
	file   *os.File // nil between transcripts
	zip    *gzip.Writer
	hash   hash.Hash
	lines  *json.Encoder

	epoch       int64 // of the run that is being written; 0 before its lease
	first, last int64
	done        []bloom.NewArtifact
}

// write uploads the transcripts of the events after the given one.
func (w *transcriptWriter) write(ctx context.Context, after int64) (add bloom.AddTranscripts, err error) {
	add = bloom.AddTranscripts{TaskID: w.taskID, After: after, To: after}
	for {
		events, err := w.t.c.Store.Events(ctx, w.taskID, add.To, transcriptPage)
		if err != nil {
			return add, err
		}
		if len(events) == 0 {
			err = w.finish(ctx)
			add.Artifacts = w.done
			return add, err
		}
		for i := range events {
			if err := w.add(ctx, &events[i]); err != nil {
				return add, err
			}
			add.To = events[i].Seq
		}
	}
}

// add writes an event. Another run begins where the task was leased anew.
func (w *transcriptWriter) add(ctx context.Context, e *bloom.Event) error {
	if e.Type == bloom.EventLeased && e.Epoch > w.epoch {
		if w.epoch > 0 {
			if err := w.finish(ctx); err != nil {
				return err
			}
		}
		w.epoch = e.Epoch
	}
	if w.file == nil {
		if err := w.begin(e.Seq); err != nil {
			return err
		}
	}
	w.last = e.Seq
	return w.lines.Encode(e)
}

func (w *transcriptWriter) begin(first int64) error {
	file, err := os.CreateTemp(w.t.c.Dir, ".transcript-*")
	if err != nil {
		return err
	}
	if err := os.Remove(file.Name()); err != nil { // it lives as long as it is open
		return errors.Join(err, file.Close())
	}
	w.file, w.first, w.hash = file, first, sha256.New()
	if to := io.MultiWriter(file, w.hash); w.zip == nil {
		w.zip = gzip.NewWriter(to)
		w.lines = json.NewEncoder(w.zip)
	} else {
		w.zip.Reset(to)
	}
	return nil
}

// finish uploads the transcript that is being written, if there is one.
func (w *transcriptWriter) finish(ctx context.Context) error {
	if w.file == nil {
		return nil
	}
	if err := w.zip.Close(); err != nil {
		return err
	}
	size, err := w.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	sum := hex.EncodeToString(w.hash.Sum(nil))
	// The day keeps a sweep from taking it for an old upload: see Orphans.
	key := "artifacts/" + w.taskID + "/" + id.String() + "-" + w.t.c.Clock.Now().UTC().Format("20060102")
	url, err := w.t.c.Blobs.Put(ctx, key, w.file, size, sum)
	if err != nil {
		return err
	}
	w.done = append(w.done, bloom.NewArtifact{
		ID: id.String(), TaskID: w.taskID, Epoch: w.epoch, Path: bloom.TranscriptPath(w.first, w.last), Type: bloom.ArtifactTranscript, Tags: []string{},
		MediaType: "application/gzip", URL: url, Size: size, SHA256: sum, Displaced: w.t.c.Placed != nil && !w.t.c.Placed(url),
	})
	return w.close()
}

func (w *transcriptWriter) close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// undo deletes what was uploaded and not recorded; the sweep takes what it cannot.
func (w *transcriptWriter) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, a := range w.done {
		if err := w.t.c.Blobs.Delete(ctx, a.URL); err != nil {
			w.t.log.WarnContext(ctx, "an orphaned upload could not be deleted and waits for the sweep", "url", a.URL, "error", err)
		}
	}
}
