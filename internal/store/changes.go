package store

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Changes is what a transaction writes.
type Changes struct {
	tables   []tableChanges // by the table's number; nil: unchanged
	dirty    bool           // there is something to write
	Outcomes []*Outcome
	Events   []Event
	Audits   []bloom.Audit
	Contexts map[string]*ContextChange
	Named    []Named
	// Forgotten are contexts to delete.
	Forgotten []string
	Counts    Counts
	Series    Series
	Gauge     *Gauge
	Searched  []Searched
	Files     []NewArtifact // artifacts that are not part of outcomes
	Archived  []*Archived   // one per task
	Logs      []bloom.WorkerLogs
	Removal   Removal
	Links     []Link // hashes of newly chained entries
	Head      *bloom.ChainHead
	Export    *contract.AuditExport
	Now       int64

	// Sealed is set by Commit when it has chained Audits.
	Sealed bool
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool { return !c.dirty }

// Statement is a write.
type Statement struct {
	Query string
	Args  []any
}

// Rest returns the statements of a transaction other than its inserts, in the order in
// which they must run.
func (d *Dialect) Rest(c *Changes) (s []Statement) {
	add := func(query string, args ...any) { s = append(s, Statement{query, args}) }
	if e := c.Export; e != nil {
		add(`UPDATE audit_export SET exported = $1, hash = $2, planned = $3, branch = $4`, e.Exported, e.Hash, e.Planned, e.Branch)
	}
	if c.Head != nil {
		add(`UPDATE audit_head SET seq = $1, hash = $2`, c.Head.Seq, Unhex(c.Head.Hash))
	}
	for w := range workers.changes(c) {
		if w.Removed {
			add(`DELETE FROM worker_logs WHERE worker_id = $1`, w.ID)
		}
	}
	d.search(c, add)
	d.remove(c, add)
	d.contexts(c, add)
	return s
}
