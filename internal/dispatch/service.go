// Package dispatch holds the use cases of the runtime: submit, lease, claim,
// heartbeat, complete, release, requeue, cancel, follow, and the reads of their
// results. It normalises input, runs long polls and uploads large content. The rules
// are in internal/lifecycle and the transactions in the store. It knows no HTTP.
package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/transcripts"
)

// Membridge is the control plane as the use cases need it. Its client retries and
// counts failures.
type Membridge interface {
	// Health returns the control plane's health response unchanged.
	Health(ctx context.Context) (json.RawMessage, error)
	// Check makes one cheap call that requires the admin key. It returns a *bloom.Error
	// with CodeMembridgeForbidden if the key is refused.
	Check(ctx context.Context) error
	// State returns the state of the connection.
	State() MembridgeState
	// Configure replaces address and key together.
	Configure(url, adminKey string)
}

// MembridgeState is the state of the connection to the control plane.
type MembridgeState struct {
	ConsecutiveFailures int     `json:"consecutiveFailures"`
	LastSuccess         *int64  `json:"lastSuccess" doc:"Unix milliseconds"`
	LastError           *string `json:"lastError"`
	Connected           bool    `json:"connected"`
	Disabled            bool    `json:"disabled,omitempty" doc:"The server was started with --no-membridge"`
	SkippedAgents       int     `json:"skippedAgents,omitempty" doc:"Invalid entries in the last list of agents; absent if there were none"`
	SkippedWhy          string  `json:"skippedWhy,omitempty" doc:"Why the first of them is invalid"`
}

// Sealer encrypts secrets that are stored in the settings.
type Sealer interface {
	Seal(name, secret string) (string, error)
	Open(name, sealed string) (string, error)
}

// Config configures a Service. Store, Blobs and Seal are required.
type Config struct {
	Store contract.Store
	Blobs blob.Blobs
	Seal  Sealer
	// Membridge is the control plane; nil: there is none.
	Membridge Membridge
	// Clock is timing.System when nil; Logger discards when nil.
	Clock  timing.Clock
	Logger *slog.Logger
	// MembridgeURL and MembridgeAdminKey come from the environment; saved settings take
	// precedence.
	MembridgeURL      string
	MembridgeAdminKey string
	// Objects is the object storage in which Blobs stores all content, not only content
	// longer than contract.InlineContentLimit. Nil: there is none.
	Objects content.Objects
	// BlobState returns the state of Blobs if there are no Objects; nil: always healthy.
	BlobState func() bloom.BlobState
	// Contents moves and verifies the content of all artifacts; nil: not supported.
	Contents content.Sweeper
	// RowLimit is the longest content that may stay in its row while the object storage
	// is unavailable and Blobs has no other place, in bytes.
	RowLimit int
	// MaxFile is the largest file that a worker may upload, in bytes; 0: none.
	MaxFile int64
	// MaxAttachments is how large the files of a task may be together, in bytes; 0: none. They pass
	// through temporary files in TempDir.
	MaxAttachments int64
	TempDir        string
	// MaxQueued limits the queued tasks, MaxQueuedByActor those of one actor; 0: no
	// limit. Several servers together may exceed it by what they create in a second.
	MaxQueued, MaxQueuedByActor int64
	// MaxWorkers is the number of workers from which worker keys may not register
	// further ones; 0: bloom.MaxWorkers.
	MaxWorkers int64
	// Machine returns what the server knows of its machine; it may be nil.
	Machine func() problems.Machine
	// Poll is how often waiting polls and streams read the store without being woken,
	// jittered by a quarter; 0: DefaultPoll.
	Poll time.Duration
	// SettingsPoll is how often the saved settings are read without a hint, jittered by a
	// quarter; 0: DefaultSettingsPoll.
	SettingsPoll time.Duration
}

// DefaultPoll is how long a change may go unnoticed by waiting polls and streams if
// no hint announces it.
const DefaultPoll = 4 * time.Second

// DefaultSettingsPoll is how long another replica's change of the settings may go
// unnoticed if its hint is lost.
const DefaultSettingsPoll = 30 * time.Second

// Service implements the runtime's use cases. It is safe for concurrent use.
type Service struct {
	Content     *content.Store
	Transcripts *transcripts.Store

	store          contract.Store
	maxFile        int64
	maxAttachments int64
	tempDir        string
	most           int64 // MaxWorkers
	seal           Sealer
	membridge      Membridge
	clock          timing.Clock
	log            *slog.Logger
	poll           time.Duration
	env            membridgeSettings

	machine     func() problems.Machine
	full        *fullness
	hub         *hub
	feeds       *feeds
	unsubscribe func()
	settings    settingsCache
	configuring sync.Mutex // held while the membridge settings are saved or loaded
	forgot      forgotten
	staleOne    *guard.Limiter
	staleAll    *guard.Limiter
	quotas      quotas

	closing   chan struct{}
	closeOnce sync.Once
	wg        sync.WaitGroup
}

// New starts a Service; Close ends it. It reads the saved settings, so the store must
// be available.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Store == nil || c.Blobs == nil || c.Seal == nil {
		return nil, errors.New("dispatch: Store, Blobs and Seal are required")
	}
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		store: c.Store, maxFile: c.MaxFile, maxAttachments: c.MaxAttachments, tempDir: c.TempDir, seal: c.Seal, membridge: c.Membridge,
		clock: c.Clock, log: c.Logger,
		poll:    cmp.Or(c.Poll, DefaultPoll),
		most:    cmp.Or(c.MaxWorkers, bloom.MaxWorkers),
		env:     membridgeSettings{url: c.MembridgeURL, adminKey: c.MembridgeAdminKey},
		closing: make(chan struct{}), machine: c.Machine,
	}
	if s.machine == nil {
		s.machine = func() problems.Machine { return problems.Machine{} }
	}
	s.Content = &content.Store{Rows: c.Store, Blobs: c.Blobs, Objects: c.Objects, Sweeper: c.Contents, BlobState: c.BlobState, RowLimit: c.RowLimit}
	s.Transcripts = &transcripts.Store{Rows: c.Store, Content: s.Content, Clock: c.Clock, Log: c.Logger}
	s.full = newFullness(c)
	s.staleOne, s.staleAll = guard.NewLimiter(c.Clock, staleAudited), guard.NewLimiter(c.Clock, staleAuditedAll)
	s.quotas.of, s.quotas.reached = map[[2]string]*rate.Limiter{}, map[string]time.Time{}
	s.hub = newHub(s.clock)
	s.feeds = newFeeds()
	if err := s.loadSettings(ctx); err != nil {
		return nil, err
	}
	reload, rescheduled := make(chan struct{}, 1), make(chan struct{}, 1)
	s.unsubscribe = c.Store.Subscribe(func(changes []bloom.Change) {
		s.hub.changed(changes)
		s.feeds.publish(changes)
		if slices.ContainsFunc(changes, func(c bloom.Change) bool { return c.Kind == bloom.ChangeSettings || c.Kind == bloom.ChangeMissed }) {
			notify(reload)
		}
		if slices.ContainsFunc(changes, func(c bloom.Change) bool { return c.Kind == contract.ChangeSchedules || c.Kind == bloom.ChangeMissed }) {
			notify(rescheduled)
		}
	})
	s.wg.Go(func() { s.runSchedules(rescheduled) })
	s.wg.Go(func() { s.reloadSettings(reload, cmp.Or(c.SettingsPoll, DefaultSettingsPoll)) })
	return s, nil
}

// Close makes every long poll and stream return what it has, and waits for the
// service's loops. It does not close the store. It may be called again.
func (s *Service) Close() {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.unsubscribe()
	})
	s.wg.Wait()
}

// Server returns what the problems of the server are derived from.
func (s *Service) Server() problems.Server {
	return problems.Server{Machine: s.machine(), MembridgeFailures: s.MembridgeState().ConsecutiveFailures, MaxQueued: s.full.all, OverQuota: s.overQuota()}
}

// Closing returns a channel that is closed when the service begins to close.
func (s *Service) Closing() <-chan struct{} { return s.closing }

// notify sends a signal unless one is pending.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
