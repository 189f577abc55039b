package maintenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// runLogWriter writes the run logs of one task, one for each run.
type runLogWriter struct {
	t      *RunLogs
	taskID string
	file   *os.File // nil between run logs
	zip    *gzip.Writer
	hash   hash.Hash
	lines  *json.Encoder

	epoch       int64 // of the current run; 0 before its lease
	first, last int64
	done        []contract.NewArtifact
}

// write uploads the run logs of the events that follow after.
func (w *runLogWriter) write(ctx context.Context, after int64) (add contract.AddRunLogs, err error) {
	add = contract.AddRunLogs{TaskID: w.taskID, After: after, To: after}
	for {
		events, err := w.t.c.Store.Events(ctx, w.taskID, add.To, runLogPage)
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

// add writes an event. A new lease begins a new run.
func (w *runLogWriter) add(ctx context.Context, e *bloom.Event) error {
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

func (w *runLogWriter) begin(first int64) error {
	file, err := os.CreateTemp(w.t.c.Dir, ".transcript-*")
	if err != nil {
		return err
	}
	if err := os.Remove(file.Name()); err != nil { // the file exists until it is closed
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

// finish uploads the current run log, if there is one.
func (w *runLogWriter) finish(ctx context.Context) error {
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
	// The date keeps Orphans from taking it for an old upload.
	key := "artifacts/" + w.taskID + "/" + id.String() + "-" + w.t.c.Clock.Now().UTC().Format("20060102")
	url, err := w.t.c.Blobs.Put(ctx, key, w.file, size, sum)
	if err != nil {
		return err
	}
	w.done = append(w.done, contract.NewArtifact{
		ID: id.String(), TaskID: w.taskID, Epoch: w.epoch, Path: bloom.RunLogPath(w.first, w.last), Type: bloom.ArtifactRunLog, Tags: []string{},
		MediaType: "application/gzip", URL: url, Size: size, SHA256: sum, PendingUpload: w.t.c.Placed != nil && !w.t.c.Placed(url),
	})
	return w.close()
}

func (w *runLogWriter) close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// undo deletes uploads that were not recorded. Orphans deletes those that it cannot.
func (w *runLogWriter) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, a := range w.done {
		if err := w.t.c.Blobs.Delete(ctx, a.URL); err != nil {
			w.t.log.WarnContext(ctx, "an orphaned upload could not be deleted; the orphans loop will delete it", "url", a.URL, "error", err)
		}
	}
}
