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

// listenerName is the application_name of the connections that listen, by which
// replicas count each other.
const listenerName = "bloom-news"

// notifier exchanges notifications of changes with other replicas, outside of write
// transactions.
type notifier struct {
	d       *database
	publish func([]bloom.Change) // to this store's subscribers
	conn    *pgx.ConnConfig
	self    string

	mu      sync.Mutex
	waiting []bloom.Change
	peers   map[string]time.Time // when each last said hello
	others  int                  // how many listened when this one began to; -1: not known yet
	met     chan struct{}        // closed when that many have said hello
	wake    chan struct{}

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// startNotifier returns once this replica and those before it know each other, so
// that no later change is missed.
func startNotifier(ctx context.Context, d *database, conn *pgx.ConnConfig, publish func([]bloom.Change)) *notifier {
	n := &notifier{
		d: d, publish: publish, conn: conn.Copy(), self: uuid.NewString(), peers: make(map[string]time.Time), others: -1,
		met: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	maps.Copy(n.conn.RuntimeParams, lockSettings)
	n.conn.RuntimeParams["application_name"] = listenerName
	var life context.Context
	life, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(func() { n.listen(life) })
	n.wg.Go(func() { n.sendLoop(life) })
	patience := time.NewTimer(meetFor)
	defer patience.Stop()
	select {
	case <-n.met:
	case <-patience.C:
	case <-ctx.Done():
	}
	return n
}

// meet records a replica that sent a message, "" for none, and how many others
// listen, -1 if they were not counted again.
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

// listen keeps a connection open that receives changes of other replicas.
func (n *notifier) listen(ctx context.Context) {
	for again := false; ctx.Err() == nil; again = true {
		err := n.listenOnce(ctx, again)
		if ctx.Err() != nil {
			return
		}
		n.d.cfg.Logger.Debug("not receiving changes of other replicas", "error", err)
		_ = retry.Sleep(ctx, relisten) // its error ends the loop
	}
}

// listenOnce listens until the connection is lost. again means that an earlier one
// was lost: notifications may have been missed.
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
	// A replica that is not counted here listens later, and asks then.
	var others int
	if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()`, listenerName).Scan(&others); err != nil {
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
		n.receive(ctx, got.Payload)
	}
}

func (n *notifier) receive(ctx context.Context, payload string) {
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
