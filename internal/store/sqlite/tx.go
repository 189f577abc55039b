package sqlite

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// tx is what an operation sees of the group's transaction.
type tx struct {
	*conn
	mem *memory
	now int64 // Unix milliseconds, when the transaction began

	wrote   bool // the running operation has changed something
	changes []bloom.Change
	counts  counts
	audits  []any // columns of the group's audit entries, row after row
}

func newTx(c *conn, m *memory, now time.Time) *tx {
	return &tx{conn: c, mem: m, now: bloom.Millis(now)}
}

// put runs a statement that changes something.
func (t *tx) put(query string, args ...any) (int64, error) {
	t.wrote = true
	return t.exec(query, args...)
}

// moved keeps the count of tasks by status.
func (t *tx) moved(from, to bloom.TaskStatus) {
	if from == to {
		return
	}
	if from != "" {
		t.counts.tasks(from, -1)
	}
	t.counts.tasks(to, 1)
}

// audit adds an entry to the audit log; the group's are written together, at its
// end. data nil is null.
func (t *tx) audit(action, entityType, entityID, actor, detail string, data json.RawMessage) {
	if data == nil {
		data = json.RawMessage("null")
	}
	t.wrote = true
	t.audits = append(t.audits, schema.NewID(t.now), t.now, action, entityType,
		bloom.CleanText(entityID), bloom.CleanText(actor), bloom.CleanText(detail), bloom.CleanText(string(data)))
}

// auditWidth is the number of columns of an audit entry.
const auditWidth = 8

// insertAudits are statements for 8, 4, 2 and 1 entries: one for many costs far
// less than many for one, and few sizes need few prepared statements.
var insertAudits = func() (texts [4]string) {
	const row = "(?,?,?,?,?,?,?,?)"
	for i := range texts {
		rows := 8 >> i
		texts[i] = `INSERT INTO audit_logs (id, timestamp, action, entity_type, entity_id, actor, detail, data) VALUES ` +
			strings.Repeat(row+",", rows-1) + row
	}
	return texts
}()

// flushAudits writes the group's audit entries in the order of their operations.
func (t *tx) flushAudits() error {
	for i, text := range insertAudits {
		for n := auditWidth * (8 >> i); len(t.audits) >= n; t.audits = t.audits[n:] {
			if _, err := t.exec(text, t.audits[:n]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// event appends to a task's stream.
func (t *tx) event(task int64, kind string, epoch int64, data json.RawMessage) error {
	_, err := t.put(insertEvent, task, kind, t.now, epoch, nil, data)
	return err
}

const insertEvent = `INSERT INTO task_events (task, seq, type, at, epoch, worker_seq, data)
	VALUES (?1, COALESCE((SELECT MAX(seq) FROM task_events WHERE task = ?1), (SELECT last_event FROM llm_tasks WHERE seq = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6)
	ON CONFLICT DO NOTHING`

// Subscribe calls fn with every group's changes, from the writer's goroutine.
func (s *Store) Subscribe(fn func([]bloom.Change)) (stop func()) { return s.feed.Subscribe(fn) }
