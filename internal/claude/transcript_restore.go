package claude

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// state returns the server's version, and waits for an unavailable server.
func (t *taskRun) state(ctx context.Context) (st bloom.TranscriptState, err error) {
	err = whenAvailable(ctx, func() (err error) {
		st, err = t.config.Transcripts.State(ctx, t.task)
		return err
	})
	return st, err
}

// whenAvailable calls try until the server is available, for at most transferTimeout.
func whenAvailable(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return retryWhile(ctx, func() (again bool, err error) {
		err = try()
		return errors.Is(err, ErrUnavailable), err
	})
}

// fetch restores the transcript. It waits for an unavailable server, and retries a few
// times if the transcript arrives damaged. A connection that breaks is no damage, unless it
// always breaks at the same byte: then the server cannot read what follows.
func (t *taskRun) fetch(ctx context.Context, st *bloom.TranscriptState) error {
	return retryDownload(ctx, func(from *download) error { return t.restore(ctx, *st, from) }, func() (changed bool, err error) {
		now, err := t.config.Transcripts.State(ctx, t.task)
		if changed = err == nil && !same(versionOf(now), versionOf(*st)); changed {
			*st = now
		}
		return changed, err
	})
}

// retryDownload calls get until it succeeds, as fetch describes. After a failure it asks whether
// the server has another version by now, because another task of the context has ended.
func retryDownload(ctx context.Context, get func(*download) error, changed func() (bool, error)) error {
	tries, last := 0, int64(-1)
	return retryWhile(ctx, func() (again bool, err error) {
		frames := &download{}
		if err = get(frames); err == nil {
			return false, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
			return true, err
		}
		if other, err := changed(); err == nil && other {
			return true, errChanged
		}
		if frames.err != nil && frames.n != last {
			tries, last = 0, frames.n
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		tries++
		most := fetchTries
		if frames.err != nil {
			most = brokenTries
		}
		return tries < most && bloom.KindOf(err) != bloom.KindNotFound, err
	})
}

var errChanged = errors.New("the server's version has changed during the download")

// download reads a transcript or a folder from the server.
type download struct {
	io.ReadCloser
	n   int64 // bytes so far
	err error // why the connection broke
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.n += int64(n); err != nil && !errors.Is(err, io.EOF) {
		d.err = err
	}
	return n, err
}

// retryWhile calls try until it succeeds or again is false. If ctx ends first, the error is
// ErrUnavailable.
func retryWhile(ctx context.Context, try func() (again bool, err error)) error {
	for wait := (retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}).Waits(); ; {
		again, err := try()
		if err == nil || !again {
			return err
		}
		if retry.Sleep(ctx, wait()) != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// restore atomically replaces the session's file by the server's transcript.
func (t *taskRun) restore(ctx context.Context, st bloom.TranscriptState, frames *download) (err error) {
	if !validSession(st.SessionID) || st.Size > bloom.MaxTranscript {
		return errors.New("the transcript's session id or size is invalid")
	}
	t.runner.pool.evict(t.task.ContextID)
	path := t.config.sessionFile(t.workdir, st.SessionID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if frames.ReadCloser, err = t.config.Transcripts.Open(ctx, t.task); err != nil {
		return err
	}
	defer frames.Close()
	from, err := unpackParts(frames)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := t.runner.sessions.enlist(t.task.ContextID, st.SessionID); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), st.SessionID+".restoring-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(from, st.Size+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != st.Size || hexSum(sum) != st.SHA256 {
		return errors.New("the transcript does not have the stored checksum")
	}
	return os.Rename(f.Name(), path)
}
