package memory_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// node is one machine: a folder with a database that its plugin writes.
type node struct {
	*memory.Project

	t  *testing.T
	db *sql.DB
}

// bucket returns a new, empty bucket.
func bucket(t *testing.T, server *miniotest.Server) *objects.Bucket {
	t.Helper()
	b, err := objects.Open(server.Bucket()) // does not exist yet
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newNode(t *testing.T, b *objects.Bucket, name string, change ...func(*memory.Config)) *node {
	t.Helper()
	c := memory.Config{Project: "garden", Node: name, DB: filepath.Join(t.TempDir(), "claude-mem.db"), Bucket: b}
	for _, f := range change {
		f(&c)
	}
	p, err := memory.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Project: p, t: t}
}

// plugin opens the database as the memory plugin does and keeps it open.
func (n *node) plugin() *sql.DB {
	n.t.Helper()
	if n.db == nil {
		db, err := sql.Open("sqlite", "file:"+n.DB+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(300000)") // however busy the machine is
		if err != nil {
			n.t.Fatal(err)
		}
		n.db = db
		n.t.Cleanup(func() { db.Close() })
	}
	return n.db
}

// rollbackPlugin is plugin without a write-ahead log.
func (n *node) rollbackPlugin() *sql.DB {
	n.t.Helper()
	db, err := sql.Open("sqlite", "file:"+n.DB+"?_pragma=busy_timeout(300000)")
	if err != nil {
		n.t.Fatal(err)
	}
	n.db = db
	n.t.Cleanup(func() { db.Close() })
	return db
}

func (n *node) write(texts ...string) {
	n.t.Helper()
	if _, err := n.plugin().ExecContext(n.t.Context(), "CREATE TABLE IF NOT EXISTS observations (id INTEGER PRIMARY KEY, text TEXT)"); err != nil {
		n.t.Fatal(err)
	}
	for _, text := range texts {
		if _, err := n.plugin().ExecContext(n.t.Context(), "INSERT INTO observations (text) VALUES (?)", text); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) observations() []string {
	n.t.Helper()
	rows, err := n.plugin().QueryContext(n.t.Context(), "SELECT text FROM observations ORDER BY id")
	if err != nil {
		n.t.Fatal(err)
	}
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			n.t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if err := rows.Err(); err != nil {
		n.t.Fatal(err)
	}
	return texts
}

func (n *node) push() memory.Pushed {
	n.t.Helper()
	out, err := n.Push(n.t.Context())
	if err != nil {
		n.t.Fatalf("%s pushes: %v", n.Node, err)
	}
	return out
}

func (n *node) pull() memory.Pulled {
	n.t.Helper()
	out, err := n.Pull(n.t.Context())
	if err != nil {
		n.t.Fatalf("%s pulls: %v", n.Node, err)
	}
	return out
}

func (n *node) want(texts ...string) {
	n.t.Helper()
	if got := n.observations(); fmt.Sprint(got) != fmt.Sprint(texts) {
		n.t.Fatalf("%s remembers %q, want %q", n.Node, got, texts)
	}
}

func failing(found []memory.Finding) string {
	names := ""
	for _, f := range found {
		if !f.OK {
			if names != "" {
				names += ", "
			}
			names += f.Name
		}
	}
	return names
}

// at calls do once, at the first step of that name.
func at(step string, do func()) func(*memory.Config) {
	return func(c *memory.Config) {
		c.Point = func(name string) {
			if name == step && do != nil {
				call := do
				do = nil
				call()
			}
		}
	}
}

// sameDB makes a node use another one's database, as a second process on its machine does.
func sameDB(n *node) func(*memory.Config) { return func(c *memory.Config) { c.DB = n.DB } }

// hook calls do before requests.
type hook struct{ do func(*http.Request) }

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	h.do(r)
	return http.DefaultTransport.RoundTrip(r)
}

func open(t *testing.T, c objects.Config) *objects.Bucket {
	t.Helper()
	b, err := objects.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
