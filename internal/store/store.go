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
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Store implements contract.Store on a Database.
type Store struct {
	sql  *Dialect
	db   Database
	cfg  Config
	log  *slog.Logger
	feed group.Feed

	queue       *group.Queue[*op]
	slots       chan struct{} // limits the transactions that run at once
	running     sync.WaitGroup
	callers     atomic.Int64  // callers of the last group and those who wait
	served      chan struct{} // closed when the commit loop has ended
	opening     sync.Mutex    // held while delayed or ordered tasks are opened
	ordered     string        // the last context that openOrdered looked at, "" for none; guarded by opening
	contacts    contacts
	candidates  candidates
	labels      labelCache
	quarantined quarantine
	refused     atomic.Pointer[string] // why the last write failed, as a sentence; nil if it did not
	outage      outage
	indexed     atomic.Bool   // all tasks older than the index are indexed
	sealing     sync.Mutex    // held while audit entries are chained
	unsealed    chan struct{} // holds a token while committed entries are not chained
	sealed      chan struct{} // closed when sealLoop has ended

	life    context.Context // cancelled when the store has closed
	end     context.CancelFunc
	closing chan struct{}
	once    sync.Once
	closed  error
}

var _ contract.Store = (*Store)(nil)

// New returns a store on an open database. Closing the store closes the database.
func New(db Database, cfg Config, log *slog.Logger) *Store {
	cfg.MaxGroup = cmp.Or(cfg.MaxGroup, DefaultMaxGroup)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	s := &Store{
		sql: db.Dialect(), db: db, cfg: cfg, log: log, queue: group.NewQueue[*op](cfg.Queue), slots: make(chan struct{}, max(1, cfg.Parallel)),
		served: make(chan struct{}), closing: make(chan struct{}), labels: labelCache{workers: map[string]cachedLabels{}},
		unsealed: make(chan struct{}, 1), sealed: make(chan struct{}),
	}
	s.outage.now = time.Now
	s.quarantined.until = map[quarantineKey]time.Time{}
	s.life, s.end = context.WithCancel(context.Background())
	go func() {
		defer close(s.served)
		s.serve()
	}()
	go s.sealLoop()
	return s
}

// Name returns the database's name.
func (s *Store) Name() string { return s.db.Name() }

// OldestWaiting returns since when the open task that has waited longest waits, in Unix
// milliseconds; 0: there is none.
func (s *Store) OldestWaiting(ctx context.Context) (int64, error) { return s.db.OldestWaiting(ctx) }

// Ping reports whether the database answers reads and runs transactions.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.Ping(ctx); err != nil {
		return err
	}
	_, err := s.Time(ctx)
	return err
}

// Time returns the database's time in Unix milliseconds, as a transaction sees it.
func (s *Store) Time(ctx context.Context) (int64, error) {
	return do(ctx, s, func(*Rows) {}, func(u *Unit) (int64, error) { return u.Now, nil })
}

// QueuePlace returns what, apart from the workers, decides when a queued task starts.
func (s *Store) QueuePlace(ctx context.Context, id string) (contract.QueuePlace, error) {
	p, err := s.queuePlace(ctx, id)
	p.Skipped = s.quarantined.skipped(id)
	return p, err
}

// Subscribe calls fn with committed changes until stop is called.
func (s *Store) Subscribe(fn func([]bloom.Change)) (stop func()) { return s.feed.Subscribe(fn) }

// Publish passes changes that another process committed to the subscribers.
func (s *Store) Publish(changes []bloom.Change) { s.feed.Publish(changes) }

// Queued returns how many operations wait.
func (s *Store) Queued() int { return s.queue.Len() }

// WritesFail returns why the database refused the last write, as a sentence for
// people, or "" if it did not. An unreachable or busy database does not count; see
// Ping.
func (s *Store) WritesFail() string {
	if why := s.refused.Load(); why != nil {
		return *why
	}
	return ""
}

// Pools returns the state of the connection pools.
func (s *Store) Pools() []Pool { return s.db.Pools() }

// Close waits for running operations, then closes the database. It may be called
// again.
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

// explain logs a database's failure and returns an error that is safe to show to
// callers. Other errors it returns unchanged.
func (s *Store) explain(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrUnreachable):
		return err
	}
	s.log.Error("the database failed", "database", s.db.Name(), "error", err)
	return s.db.Explain(err)
}
