package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

const (
	// notifyEvery is the shortest time between two notifications; changes in between are
	// batched. The commit of a NOTIFY takes a lock on the whole database.
	notifyEvery = 2 * time.Millisecond
	// helloEvery is how often a replica announces itself. Changes are sent only while
	// there are other replicas.
	helloEvery = 10 * time.Second
	peerGone   = 3 * helloEvery
	relisten   = 500 * time.Millisecond // before a lost connection is reopened
	// meetFor is how long a store that opens waits for the others to answer. One whose
	// machine is gone may be counted for a minute and never answers.
	meetFor = 5 * time.Second
)

// notifyMost limits the changes that wait to be sent. Further ones are dropped:
// changes are hints, and polling finds everything.
const notifyMost = 4096

// payloadMost is less than the 8000 bytes that a notification may have.
const payloadMost = 7800

// message is one notification.
type message struct {
	From    string       `json:"f"`
	Hello   bool         `json:"h,omitempty"` // the sender announces itself
	Ask     bool         `json:"a,omitempty"` // the others are to answer with a hello
	Changes []sentChange `json:"c,omitempty"`
}

// sentChange is a change with all of its fields.
type sentChange struct {
	bloom.Change
	Labels []string `json:"l,omitempty"`
	RunAt  int64    `json:"r,omitempty"`
}

// enqueue queues changes for the other replicas, if there are any.
func (n *notifier) enqueue(changes []bloom.Change) {
	if len(changes) == 0 {
		return
	}
	n.mu.Lock()
	queued := n.hasPeers() && len(n.waiting)+len(changes) <= notifyMost
	if queued {
		n.waiting = append(n.waiting, changes...)
	}
	n.mu.Unlock()
	if queued {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// hasPeers reports whether another replica has announced itself recently. The caller
// holds the mutex.
func (n *notifier) hasPeers() bool {
	for peer, at := range n.peers {
		if time.Since(at) < peerGone {
			return true
		}
		delete(n.peers, peer)
	}
	return false
}

// sendLoop sends the queued changes, and a hello every helloEvery.
func (n *notifier) sendLoop(ctx context.Context) {
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

// pack splits changes into messages. A later change of a task replaces an earlier one.
func pack(changes []bloom.Change) (messages []message) {
	type subject struct{ kind, task, worker string }
	last := map[subject]int{}
	kept := make([]*sentChange, 0, len(changes))
	for _, c := range changes {
		k := subject{c.Kind, c.TaskID, ""}
		if c.Kind == bloom.ChangeWorker {
			k.worker = c.WorkerID
		}
		if i, ok := last[k]; ok {
			kept[i] = nil
		}
		last[k] = len(kept)
		kept = append(kept, &sentChange{Change: c, Labels: c.Labels, RunAt: c.RunAt})
	}
	size := payloadMost
	for _, t := range kept {
		if t == nil {
			continue
		}
		n := len(storable.MustJSON(t)) + 1
		if n > payloadMost/2 {
			t.Labels = nil // better a hint without labels than none
			if n = len(storable.MustJSON(t)) + 1; n > payloadMost/2 {
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

// send sends messages. The commit need not be flushed, since notifications do not
// survive a restart of the server.
func (n *notifier) send(ctx context.Context, messages ...message) {
	payloads := make([]string, 0, len(messages))
	for _, m := range messages {
		m.From = n.self
		payloads = append(payloads, string(storable.MustJSON(m)))
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
		// After a restart of the server all connections of the pool are broken.
		if tries < readTries && isGone(err) {
			continue
		}
		n.d.cfg.Logger.Debug("notifying other replicas failed", "error", err)
		return
	}
}
