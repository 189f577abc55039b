// Package dispatch holds the use cases of the runtime: submit, lease, claim,
// heartbeat, complete, release, requeue, cancel, follow, and the reading of
// what they left. It cleans and normalises what comes in, waits for those who
// wait, places large content, and leaves every rule to internal/lifecycle and
// every transaction to the store. It knows no HTTP.
package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom"
)

// Membridge is what the runtime asks of the control plane. The client behind it
// retries and counts on its own.
type Membridge interface {
	// Health is the control plane's own health answer, as it gave it.
	Health(ctx context.Context) (json.RawMessage, error)
	// Check makes one cheap call that the control plane answers to its admin key only.
	// A *bloom.Error with CodeMembridgeForbidden: the key is not that.
	Check(ctx context.Context) error
	// State is what the client has lived through.
	State() MembridgeState
	// Configure replaces address and key at once.
	Configure(url, adminKey string)
}

// MembridgeState is how the connection to the control plane has fared.
type MembridgeState struct {
	ConsecutiveFailures int     `json:"consecutiveFailures"`
	LastSuccess         *int64  `json:"lastSuccess" doc:"Unix milliseconds"`
	LastError           *string `json:"lastError"`
	Connected           bool    `json:"connected"`
	SkippedAgents       int     `json:"skippedAgents,omitempty" doc:"Entries of the last list of agents that were none; absent when there were none"`
	SkippedWhy          string  `json:"skippedWhy,omitempty" doc:"What is wrong with the first of them"`
}

// Sealer encrypts a secret that rests in the settings.
type Sealer interface {
	Seal(name, secret string) (string, error)
	Open(name, sealed string) (string, error)
}

// Config is what a Service needs. Store, Blobs and Seal are required.
type Config struct {
	Store bloom.Store
	Blobs bloom.Blobs
	Seal  Sealer
	// Membridge may be nil: then no control plane is configured.
	Membridge Membridge
	// Clock is bloom.SystemClock when nil; Logger discards when nil.
	Clock  bloom.Clock
	Logger *slog.Logger
	// MembridgeURL and MembridgeAdminKey are the environment's; saved ones win.
	MembridgeURL      string
	MembridgeAdminKey string
	// Objects is the object storage that Blobs keeps content in, all of it and not only
	// what is longer than bloom.InlineContentLimit. Nil: there is none.
	Objects ObjectStorage
	// BlobState is what is known of Blobs where there are no Objects; nil: nothing but
	// good.
	BlobState func() bloom.BlobState
	// Contents moves and verifies all artifacts' content; nil: that is not offered.
	Contents Contents
	// RowLimit is the longest content that may lie in its row while the object storage
	// is away and Blobs has no other place, in bytes.
	RowLimit int
	// MaxFile is the largest file that a worker may upload, in bytes; 0 takes none.
	MaxFile int64
	// PageBytes bounds what one page of a list holds, in bytes; 0 means
	// DefaultPageBytes.
	PageBytes int
	// MaxQueued is how many tasks may be queued, MaxQueuedByActor how many of one
	// actor; 0 has no limit. Several servers together may queue as many more as they
	// create in a second.
	MaxQueued, MaxQueuedByActor int64
	// MaxWorkers is how many workers there may be before workers' keys make no new one
	// known; 0 means bloom.MaxWorkers.
	MaxWorkers int64
	// Machine is what the server knows of its machine, for Problems; nil knows nothing.
	Machine func() Machine
	// Poll is how often those who wait look at the store although nothing woke
	// them, jittered by a quarter; 0 means DefaultPoll.
	Poll time.Duration
}

// Contents works on the content of all artifacts.
type Contents interface {
	Move(ctx context.Context, all bool, tell func(bloom.MoveReport)) (bloom.MoveReport, error)
	Verify(ctx context.Context, tell func(bloom.VerifyReport, *bloom.ContentDefect)) (bloom.VerifyReport, error)
}

// ObjectStorage is what the use cases ask of object storage beyond bloom.Blobs.
type ObjectStorage interface {
	// State is what is known of it; cheap.
	State() bloom.BlobState
	// Placed reports whether url is one of its own.
	Placed(url string) bool
	// PutFile is Put of content that cannot lie in a row instead.
	PutFile(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Link is an address from which anybody can read the content until valid is over;
	// "" when it does not lie in object storage.
	Link(ctx context.Context, url string, valid time.Duration, mediaType, name string) (string, error)
}

// DefaultPoll is how long a change that no hint announced stays unseen by those
// who wait.
const DefaultPoll = 4 * time.Second

// Service is the runtime's use cases. It is safe for concurrent use.
type Service struct {
	store     bloom.Store
	blobs     bloom.Blobs
	objects   ObjectStorage
	contents  Contents
	state     func() bloom.BlobState
	rowLimit  int
	maxFile   int64
	most      int64 // workers
	seal      Sealer
	membridge Membridge
	clock     bloom.Clock
	log       *slog.Logger
	inline    int
	pageBytes int
	poll      time.Duration
	env       membridgeSettings

	machine     func() Machine
	problems    problems
	full        *fullness
	hub         *hub
	feeds       *feeds
	unhook      func()
	settings    settingsCache
	configuring sync.Mutex // held while secrets are saved
	forgot      forgotten
	snippets    *semaphore.Weighted // batches of texts that searches have in memory
	stale       *rate.Limiter       // entries of refusedStale

	closing   chan struct{}
	closeOnce sync.Once
	wg        sync.WaitGroup
}

// New starts a Service on a store; Close ends it. The saved settings are read
// at once, so the store has to answer.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Store == nil || c.Blobs == nil || c.Seal == nil {
		return nil, errors.New("dispatch: Store, Blobs and Seal are required")
	}
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		store: c.Store, blobs: c.Blobs, objects: c.Objects, contents: c.Contents, state: c.BlobState, rowLimit: c.RowLimit, maxFile: c.MaxFile, seal: c.Seal, membridge: c.Membridge,
		clock: c.Clock, log: c.Logger, inline: bloom.InlineContentLimit, pageBytes: cmp.Or(c.PageBytes, DefaultPageBytes),
		poll:    cmp.Or(c.Poll, DefaultPoll),
		most:    cmp.Or(c.MaxWorkers, bloom.MaxWorkers),
		env:     membridgeSettings{url: c.MembridgeURL, adminKey: c.MembridgeAdminKey},
		closing: make(chan struct{}), machine: c.Machine,
	}
	if c.Objects != nil {
		s.inline = -1
	}
	s.full = newFullness(c)
	s.stale = rate.NewLimiter(rate.Every(time.Minute/staleAudited), staleAudited)
	s.snippets = semaphore.NewWeighted(snippetsAtOnce)
	s.hub = newHub(s.clock)
	s.feeds = newFeeds()
	if err := s.loadSettings(ctx); err != nil {
		return nil, err
	}
	reload := make(chan struct{}, 1)
	s.unhook = c.Store.Subscribe(func(changes []bloom.Change) {
		s.hub.changed(changes)
		s.feeds.publish(changes)
		if touches(changes, bloom.ChangeSettings) || touches(changes, bloom.ChangeMissed) {
			offer(reload)
		}
	})
	s.wg.Go(func() { s.reloadSettings(reload) })
	s.wg.Go(func() { s.hub.run(s.closing) })
	return s, nil
}

// Close makes every long poll and every stream come back with what it has, and
// waits for the service's own loops. The store stays open. Closing twice is
// allowed.
func (s *Service) Close() {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.unhook()
	})
	s.wg.Wait()
}

// Closing is closed when the service begins to end.
func (s *Service) Closing() <-chan struct{} { return s.closing }

func touches(changes []bloom.Change, kind string) bool {
	for _, c := range changes {
		if c.Kind == kind {
			return true
		}
	}
	return false
}

// offer leaves a signal unless one is waiting already.
func offer(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
