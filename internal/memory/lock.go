package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Lock names the node that is pushing. Releasing a lock sets its time to zero instead of
// deleting it, because a delete is not conditional and could delete another push's lock.
type Lock struct {
	Holder      string `json:"hostname"`
	Timestamp   int64  `json:"timestamp"` // Unix seconds; 0 when released
	Project     string `json:"project"`
	CanonicalID string `json:"canonical_id"`
	Nonce       string `json:"nonce,omitempty"` // of one push
	// File identifies the file that the push has locked on its node, so that the next push
	// there need not wait for one that was killed. Empty if the push has locked none.
	File string `json:"file,omitempty"`
	// Boot identifies the machine's last start, which ended all pushes before it.
	Boot string `json:"boot,omitempty"`
}

// LockedError means that another push is running.
type LockedError struct {
	Holder string
	Age    time.Duration
	Free   time.Duration // until the lock expires
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s has been pushing for %s. Wait until it is done; if it was killed, the lock expires in %s, or use --force",
		e.Holder, e.Age.Round(time.Second), e.Free.Round(time.Second))
}

func (p *Project) lockKey() string { return p.key("locks", "active.lock") }

// Lock reads the lock; ok is false if nobody holds it.
func (p *Project) Lock(ctx context.Context) (l Lock, ok bool, err error) {
	_, err = p.readJSON(ctx, p.lockKey(), &l)
	if errors.Is(err, objects.ErrNotFound) {
		return Lock{}, false, nil
	}
	return l, err == nil && l.Timestamp != 0, err
}

// acquire takes the lock and returns how to release it.
func (p *Project) acquire(ctx context.Context) (release func(context.Context) error, err error) {
	file, unlock := p.lockFile()
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	var held Lock
	etag, err := p.readJSON(ctx, p.lockKey(), &held)
	if err != nil && !errors.Is(err, objects.ErrNotFound) && !errors.Is(err, errUnreadable) {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	now := p.Now()
	age := now.Sub(time.Unix(held.Timestamp, 0))
	if held.Timestamp != 0 && !p.stale(held, file) && !p.ForcePush {
		return nil, &LockedError{Holder: held.Holder, Age: age, Free: p.LockTTL + p.LockGrace - age}
	}
	mine := Lock{Holder: p.Node, Timestamp: now.Unix(), Project: p.Project, CanonicalID: p.id, Nonce: rand.Text(), File: file, Boot: thisBoot()}
	etag, err = p.swapJSON(ctx, p.lockKey(), mine, etag)
	if err != nil {
		p.ended.Store(mine.Nonce, true) // the storage may have it nevertheless
	}
	if errors.Is(err, objects.ErrConflict) {
		return nil, &LockedError{Holder: "another process", Free: p.LockTTL + p.LockGrace}
	}
	if err != nil {
		return nil, fmt.Errorf("take the lock: %w", err)
	}
	p.ended.Clear()
	p.Point("lock taken")
	release = func(ctx context.Context) error {
		defer unlock()
		free := mine
		free.Timestamp = 0
		_, err := p.swapJSON(ctx, p.lockKey(), free, etag)
		if errors.Is(err, objects.ErrConflict) {
			return nil // another push took it by force
		}
		if err != nil {
			p.ended.Store(mine.Nonce, true)
		}
		return err
	}
	if err := p.checkConditions(ctx); err != nil {
		return nil, errors.Join(err, release(context.WithoutCancel(ctx)))
	}
	return release, nil
}

// checkConditions fails if the storage ignores conditions, so that another push could take
// the lock, too.
func (p *Project) checkConditions(ctx context.Context) error {
	_, err := p.swapJSON(ctx, p.lockKey(), Lock{Nonce: rand.Text()}, "")
	switch {
	case err == nil:
		return errors.New("this object storage ignores conditions (If-None-Match), so two nodes could push at once; use one that supports them")
	case errors.Is(err, objects.ErrConflict):
		return nil
	}
	return fmt.Errorf("check the lock: %w", err)
}
