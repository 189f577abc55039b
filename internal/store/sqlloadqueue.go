package store

import (
	"fmt"
	"strings"
)

// OpenColumns are the columns of an open task after its label key, with its texts if
// they are short. hints is an expression for the size of its hints.
func (d *Dialect) OpenColumns(hints string) string {
	return d.TaskColumns() + fmt.Sprintf(`, CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.prompt END,
		CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.context_hints END`, hints)
}

// TakeOpen adds an open task, a row of its label key and OpenColumns.
func (l *Load) TakeOpen(r Row) error {
	var key string
	var prompt *string
	var hints List
	t := &Task{}
	if err := r.Scan(append(append([]any{&key}, TaskFields(t)...), &prompt, &hints)...); err != nil {
		return err
	}
	line := l.Rows.Queue[key]
	line.Tasks = append(line.Tasks, Place{ID: t.ID, Seq: t.Seq})
	line.Cut = len(line.Tasks) == l.ReadSet.Queue[key]
	l.Rows.Queue[key] = line
	if _, have := l.Rows.Tasks[t.ID]; !have {
		l.Rows.Tasks[t.ID] = t
	}
	if prompt != nil {
		l.Rows.Texts[t.ID] = Text{Prompt: *prompt, Hints: hints}
	}
	return nil
}

// sets returns a query that steps over the distinct label sets in the queue's index
// and selects query for each. first is a condition on the first one.
func (d *Dialect) sets(first, most, query string) string {
	open := ` FROM llm_tasks q` + d.Via("llm_tasks_queue") + ` WHERE q.gate = 'open'`
	return `WITH RECURSIVE s (label_key, n) AS (
			SELECT (SELECT q.label_key` + open + first + ` ORDER BY q.label_key LIMIT 1), 1
			UNION ALL
			SELECT (SELECT q.label_key` + open + ` AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1), s.n + 1
			FROM s WHERE s.label_key IS NOT NULL AND s.n < ` + most + `)
		SELECT ` + strings.ReplaceAll(query, "OPEN", open+` AND q.label_key = s.label_key`) + ` FROM s WHERE s.label_key IS NOT NULL ORDER BY s.n`
}

// Queue reads label sets in the queue, and whether delayed tasks are due.
func (l *Load) Queue() {
	for from, most := range l.ReadSet.Sets {
		l.Rows.Sets[from] = []LabelSet{}
		l.Each(scan(func(s *LabelSet) []any { return []any{&s.Key, (*List)(&s.Labels)} },
			func(s *LabelSet) { l.Rows.Sets[from] = append(l.Rows.Sets[from], *s) }),
			l.sets(` AND q.label_key > $1`, "$2", `s.label_key, (SELECT q.labels OPEN LIMIT 1)`), from, most)
	}
	if l.ReadSet.Due {
		l.Each(scan(Self[bool], func(due *bool) { l.Rows.Due = due }), `SELECT EXISTS (SELECT 1 FROM llm_tasks t`+l.Via("llm_tasks_delayed")+
			` WHERE t.gate = 'delayed' AND t.run_at <= `+l.Dialect.Now+`)`, l.Now)
	}
}
