package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

const channel = "bloom_changes"

// newsName is the application_name of the connections that listen, by which
// replicas find out how many others there are.
const newsName = "bloom-news"

// Times of the notifier.
const (
	// notifyEvery is how often changes are published at most: what comes between is
	// published together. NOTIFY takes a lock over the whole database at its commit.
	notifyEvery = 2 * time.Millisecond
	// helloEvery is how often a replica says that it is there. Changes are published
	// only while others are.
	helloEvery = 10 * time.Second
	peerGone   = 3 * helloEvery
	// relisten is how long a lost connection is left alone before the next try.
	relisten = 500 * time.Millisecond
	// meetFor is how long a store that opens waits for the others to answer its
	// hello. One whose machine is gone may be counted for a minute and never does.
	meetFor = 5 * time.Second
)

// notifyMost bounds what waits to be published; more is dropped, for changes are only
// hints and polling finds everything.
const notifyMost = 4096

// payloadMost is below the 8000 bytes that a notification may have.
const payloadMost = 7800

// notifier notifies other replicas of this one's changes, and this one's subscribers
// of theirs, outside every transaction that writes.
type notifier struct {
	d       *database
	publish func([]bloom.Change) // to this store's subscribers
	conn    *pgx.ConnConfig
	self    string

	mu      sync.Mutex
	waiting []bloom.Change
	peers   map[string]time.Time // when they last said hello
	others  int                  // how many listened when this one began to; -1: not known yet
	met     chan struct{}        // closed when as many have said hello
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

// startNotifier comes back when this replica and those that were there before it
// know of each other, so that no change after it goes untold.
func startNotifier(ctx context.Context, d *database, conn *pgx.ConnConfig, publish func([]bloom.Change)) *notifier {
	n := &notifier{
		d: d, publish: publish, conn: conn.Copy(), self: uuid.NewString(), peers: make(map[string]time.Time), others: -1,
		met: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	maps.Copy(n.conn.RuntimeParams, lockSettings)
	n.conn.RuntimeParams["application_name"] = newsName
	var life context.Context
	life, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(func() { n.listen(life) })
	n.wg.Go(func() { n.speak(life) })
	patience := time.NewTimer(meetFor)
	defer patience.Stop()
	select {
	case <-n.met:
	case <-patience.C:
	case <-ctx.Done():
	}
	return n
}

// meet notes who is there; the caller holds no lock. others is -1 when they were
// not counted again, from is empty when nobody said anything.
func (n *notifier) meet(from string, others int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if from != "" {
		n.peers[from] = time.Now()
	}
	if others >= 0 {
		n.others = others
	}
	select {
	case <-n.met:
	default:
		if n.others >= 0 && len(n.peers) >= n.others {
			close(n.met)
		}
	}
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
	for tries := 0; ; tries++ {
		b := &pgx.Batch{}
		b.Queue("begin")
		b.Queue("SET LOCAL synchronous_commit = off")
		b.Queue(`SELECT pg_notify($1, p) FROM unnest($2::text[]) p`, channel, payloads)
		b.Queue("commit")
		err := n.d.reads.SendBatch(ctx, b).Close()
		if err == nil || ctx.Err() != nil {
			return
		}
		// After a restart of the server every connection of the pool is dead.
		if tries < readTries && isGone(err) {
			continue
		}
		n.d.cfg.Logger.Debug("changes could not be told to other replicas", "error", err)
		return
	}
}

// listen keeps a connection on which changes of other replicas come in.
func (n *notifier) listen(ctx context.Context) {
	for again := false; ctx.Err() == nil; again = true {
		err := n.listenOnce(ctx, again)
		if ctx.Err() != nil {
			return
		}
		n.d.cfg.Logger.Debug("no news of other replicas for now", "error", err)
		_ = retry.Sleep(ctx, relisten) // its error ends the loop
	}
}

// listenOnce listens until the connection is lost; again says that one was lost
// before, and with it what was published meanwhile.
func (n *notifier) listenOnce(ctx context.Context, again bool) error {
	c, err := pgx.ConnectConfig(ctx, n.conn)
	if err != nil {
		return err
	}
	defer func() {
		farewell, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		_ = c.Close(farewell)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	// Whoever is not counted here begins to listen later, and asks then.
	var others int
	if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()`, newsName).Scan(&others); err != nil {
		return err
	}
	n.meet("", others)
	n.send(ctx, message{Hello: true, Ask: true})
	if again {
		n.publish([]bloom.Change{{Kind: bloom.ChangeMissed}})
	}
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
	n.meet(m.From, -1)
	if m.Ask {
		n.send(ctx, message{Hello: true})
	}
	changes := make([]bloom.Change, 0, len(m.Changes))
	for _, t := range m.Changes {
		c := t.Change
		c.Labels, c.RunAt = t.Labels, t.RunAt
		changes = append(changes, c)
	}
	n.publish(changes)
}
