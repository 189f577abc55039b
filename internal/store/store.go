package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/group"
)

// Store is a bloom.Store over a database.
type Store struct {
	Reader
	db   Database
	cfg  Config
	log  *slog.Logger
	feed group.Feed

	queue    *group.Queue[*op]
	slots    chan struct{} // one for each transaction that may run
	running  sync.WaitGroup
	callers  atomic.Int64  // when the last group was committed
	served   chan struct{} // closed when the queue is empty and nothing more comes in
	opening  sync.Mutex    // held by who opens delayed tasks
	contacts contacts
	usual    usual
	bad      bad
	refused  atomic.Pointer[string] // what the database said of the last write, in a sentence; nil when it took it
	filled   atomic.Bool            // all tasks are in their contexts
	indexed  atomic.Bool            // no task is older than the index and not in it
	sealing  sync.Mutex             // held while entries of the audit are chained
	unsealed chan struct{}          // holds a token when entries were committed unchained
	sealed   chan struct{}          // closed when nothing more is chained

	life    context.Context // ends when the store has closed
	end     context.CancelFunc
	closing chan struct{}
	once    sync.Once
	closed  error
}

var _ bloom.Store = (*Store)(nil)

// New is a store over a database that is open. It is closed with the store.
func New(db Database, cfg Config, log *slog.Logger) *Store {
	cfg.MaxGroup = cmp.Or(cfg.MaxGroup, DefaultMaxGroup)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	s := &Store{
		Reader: db, db: db, cfg: cfg, log: log, queue: group.NewQueue[*op](cfg.Queue), slots: make(chan struct{}, max(1, cfg.Parallel)),
		served: make(chan struct{}), closing: make(chan struct{}), usual: usual{workers: map[string]usualSets{}},
		unsealed: make(chan struct{}, 1), sealed: make(chan struct{}),
	}
	s.bad.until = map[badRow]time.Time{}
	s.life, s.end = context.WithCancel(context.Background())
	s.lookFilled()
	go func() {
		defer close(s.served)
		s.serve()
	}()
	go s.keepSealed()
	return s
}

// Ping reports whether the database answers reads and takes transactions.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.Ping(ctx); err != nil {
		return err
	}
	_, err := s.now(ctx)
	return err
}

// now is the store's time in Unix milliseconds, as a transaction sees it: one that
// follows jumps of the clock has done so.
func (s *Store) now(ctx context.Context) (int64, error) {
	return do(ctx, s, func(*ReadSet) {}, func(u *Unit) (int64, error) { return u.Now, nil })
}

// Subscribe calls fn with what was committed.
func (s *Store) Subscribe(fn func([]bloom.Change)) (stop func()) { return s.feed.Subscribe(fn) }

// Publish calls the subscribers with changes that were committed elsewhere.
func (s *Store) Publish(changes []bloom.Change) { s.feed.Publish(changes) }

// Queued is how many operations wait.
func (s *Store) Queued() int { return s.queue.Len() }

// WritesFail is why the database did not take the last write, in a sentence for people;
// empty when it did. A database that is away or busy is not meant: see Ping.
func (s *Store) WritesFail() string {
	if why := s.refused.Load(); why != nil {
		return *why
	}
	return ""
}

func (s *Store) noteWrite(u *Unit, err error) {
	switch {
	case err == nil && !u.c.Empty():
		s.refused.Store(nil)
	case err == nil || errors.Is(err, ErrAway) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrConflict) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	default:
		if said := s.db.Explain(err); bloom.KindOf(said) == bloom.KindUnavailable {
			s.refused.Store(&said.Message)
		}
	}
}

// Pools are the connections to the database now.
func (s *Store) Pools() []Pool { return s.db.Pools() }

// Close waits for the writes under way, then closes the database. Closing twice is
// allowed.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		<-s.sealed
		s.queue.Stop()
		<-s.served
		s.running.Wait()
		s.end()
		s.closed = s.db.Close()
	})
	return s.closed
}

// fail turns what a database said into something that may be shown.
func (s *Store) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrAway):
		return err
	}
	s.log.Error("the database failed", "database", s.db.Name(), "error", err)
	return s.db.Explain(err)
}
