package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

const channel = "bloom_changes"

// Times of the notifier.
const (
	// notifyEvery is how often changes are told at most: what comes between is
	// told together. NOTIFY takes a lock over the whole database at its commit.
	notifyEvery = 2 * time.Millisecond
	// helloEvery is how often a replica says that it is there. Changes are told
	// only while others are.
	helloEvery = 10 * time.Second
	peerGone   = 3 * helloEvery
	// relisten is how long a lost connection is left alone before the next try.
	relisten = 500 * time.Millisecond
)

// notifyMost bounds what waits to be told; more is dropped, for changes are only
// hints and polling finds everything.
const notifyMost = 4096

// payloadMost is below the 8000 bytes that a notification may have.
const payloadMost = 7800

// notifier tells other replicas of this one's changes, and this one's subscribers
// of theirs, outside every transaction that writes.
type notifier struct {
	s    *Store
	conn *pgx.ConnConfig
	self string

	mu      sync.Mutex
	waiting []bloom.Change
	peers   map[string]time.Time // when they last said hello
	wake    chan struct{}

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// message is one notification.
type message struct {
	From    string `json:"f"`
	Hello   bool   `json:"h,omitempty"` // the sender is there
	Ask     bool   `json:"a,omitempty"` // and wants to know who else is
	Changes []told `json:"c,omitempty"`
}

// told is a change with all of its fields.
type told struct {
	bloom.Change
	Labels []string `json:"l,omitempty"`
	RunAt  int64    `json:"r,omitempty"`
}

func startNotifier(s *Store, conn *pgx.ConnConfig) *notifier {
	n := &notifier{s: s, conn: conn.Copy(), self: uuid.NewString(), peers: make(map[string]time.Time), wake: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(func() { n.listen(ctx) })
	n.wg.Go(func() { n.speak(ctx) })
	return n
}

func (n *notifier) stop() {
	n.cancel()
	n.wg.Wait()
}

// tell queues changes for the other replicas, if there are any.
func (n *notifier) tell(changes []bloom.Change) {
	if len(changes) == 0 {
		return
	}
	n.mu.Lock()
	heard := n.company() && len(n.waiting)+len(changes) <= notifyMost
	if heard {
		n.waiting = append(n.waiting, changes...)
	}
	n.mu.Unlock()
	if heard {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// company reports whether another replica was heard of lately.
func (n *notifier) company() bool {
	for peer, at := range n.peers {
		if time.Since(at) < peerGone {
			return true
		}
		delete(n.peers, peer)
	}
	return false
}

// speak sends what waits, and a hello now and then.
func (n *notifier) speak(ctx context.Context) {
	hello := time.NewTicker(helloEvery)
	defer hello.Stop()
	pause := time.NewTimer(notifyEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hello.C:
			n.send(ctx, message{Hello: true})
			continue
		case <-n.wake:
		}
		n.mu.Lock()
		changes := n.waiting
		n.waiting = nil
		n.mu.Unlock()
		n.send(ctx, pack(changes)...)
		pause.Reset(notifyEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// pack divides changes among as many messages as they need, the later change of
// one task replacing the earlier.
func pack(changes []bloom.Change) (messages []message) {
	type subject struct{ kind, task, worker string }
	last := map[subject]int{}
	kept := make([]*told, 0, len(changes))
	for _, c := range changes {
		k := subject{c.Kind, c.TaskID, ""}
		if c.Kind == bloom.ChangeWorker {
			k.worker = c.WorkerID
		}
		if i, ok := last[k]; ok {
			kept[i] = nil
		}
		last[k] = len(kept)
		kept = append(kept, &told{Change: c, Labels: c.Labels, RunAt: c.RunAt})
	}
	size := payloadMost
	for _, t := range kept {
		if t == nil {
			continue
		}
		n := len(bloom.MustJSON(t)) + 1
		if n > payloadMost/2 {
			t.Labels = nil // a hint without them is better than none
			if n = len(bloom.MustJSON(t)) + 1; n > payloadMost/2 {
				continue
			}
		}
		if size+n > payloadMost {
			messages, size = append(messages, message{}), 100
		}
		m := &messages[len(messages)-1]
		m.Changes, size = append(m.Changes, *t), size+n
	}
	return messages
}

// send notifies. The commit need not be on disk: a notification does not outlive
// the server anyway.
func (n *notifier) send(ctx context.Context, messages ...message) {
	payloads := make([]string, 0, len(messages))
	for _, m := range messages {
		m.From = n.self
		payloads = append(payloads, string(bloom.MustJSON(m)))
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue("SET LOCAL synchronous_commit = off")
	b.Queue(`SELECT pg_notify($1, p) FROM unnest($2::text[]) p`, channel, payloads)
	b.Queue("commit")
	if err := n.s.reads.SendBatch(ctx, b).Close(); err != nil && ctx.Err() == nil {
		n.s.log.Debug("changes could not be told to other replicas", "error", err)
	}
}

// listen keeps a connection on which changes of other replicas come in.
func (n *notifier) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		n.s.log.Debug("no news of other replicas for now", "error", err)
		timer := time.NewTimer(relisten)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (n *notifier) listenOnce(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, n.conn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	n.send(ctx, message{Hello: true, Ask: true})
	for {
		got, err := c.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		n.hear(ctx, got.Payload)
	}
}

func (n *notifier) hear(ctx context.Context, payload string) {
	var m message
	if json.Unmarshal([]byte(payload), &m) != nil || m.From == n.self || m.From == "" {
		return
	}
	n.mu.Lock()
	n.peers[m.From] = time.Now()
	n.mu.Unlock()
	if m.Ask {
		n.send(ctx, message{Hello: true})
	}
	changes := make([]bloom.Change, 0, len(m.Changes))
	for _, t := range m.Changes {
		c := t.Change
		c.Labels, c.RunAt = t.Labels, t.RunAt
		changes = append(changes, c)
	}
	n.s.subs.publish(changes)
}
