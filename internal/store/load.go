package store

// Batch collects the statements of a Load. It may run them at once or later, but in
// this order.
type Batch interface {
	// Each calls take with every row.
	Each(take func(Row) error, query string, args ...any)
	// Pick calls take with every row whose column, which is of type kind, is one of the
	// keys. The query has no parameters; tail is appended to it.
	Pick(take func(Row) error, query, column, kind string, keys []string, tail string)
}

// Native is what each database reads in its own way.
type Native interface {
	// Ordered reads the first pending ordered tasks of contexts and locks the contexts.
	Ordered(l *Load, v *Values[string, Line])
	// Open reads and locks the first open tasks of label keys, skipping those that others
	// have locked and those reserved for a worker that is not one of the claimers.
	Open(l *Load, v *Values[string, Line], claimers []string)
	// Numbers adds numbers for new tasks.
	Numbers(l *Load, v *Values[struct{}, []int64])
	// Chain reads the head of the audit's chain and as many entries to chain next; nil: it
	// is locked.
	Chain(l *Load, v *Values[struct{}, *Chain])
}

// Load reads what a transaction's rows want. A database calls Run; once the batch has
// run Recheck, if it locks rows; then Settle.
type Load struct {
	*Dialect
	Batch
	Rows *Rows
	Now  any // for Dialect.Now
}

// Run reads everything, in the order in which rows are locked.
func (l *Load) Run(n Native) {
	run(l, ordered, n.Ordered)
	run(l, &workers.Query, loadWorkers)
	run(l, online, loadOnline)
	run(l, &tasks.Query, loadTasks)
	run(l, views, loadViews)
	run(l, texts, loadTexts)
	run(l, sizes, loadSizes)
	run(l, held, loadHeld)
	run(l, &leases.Query, loadLeases)
	run(l, active, loadActive)
	run(l, expired, loadExpired)
	run(l, open, func(l *Load, v *Values[string, Line]) { n.Open(l, v, claimers.of(l.Rows).Keys()) })
	run(l, labelSets, loadLabelSets)
	run(l, due, loadDue)
	run(l, homes, loadHomes)
	run(l, contextWorkers, loadContextWorkers)
	run(l, idempotent, loadIdempotent)
	run(l, outcomes, loadOutcomes)
	run(l, repeats, loadRepeats)
	run(l, files, loadFiles)
	run(l, fileCounts, loadFileCounts)
	run(l, archived, loadArchived)
	run(l, contextRows, loadContexts)
	run(l, &transcripts.Query, loadTranscripts)
	run(l, &places.Query, loadPlaces)
	run(l, aged, loadAged)
	run(l, agedAudit, loadAgedAudit)
	run(l, &apiKeys.Query, loadAPIKeys)
	run(l, &schedules.Query, loadSchedules)
	run(l, &approvals.Query, loadApprovals)
	run(l, &sessions.Query, loadSessions)
	run(l, &settings.Query, loadSettings)
	run(l, exports, loadExport)
	run(l, numbers, n.Numbers)
	run(l, chains, n.Chain)
}

// Writes returns the rows that the transaction writes, but for audit entries.
func (c *Changes) Writes() (all []Write) {
	for _, t := range c.tables {
		if t != nil {
			all = append(all, t.writes()...)
		}
	}
	ended, kept := c.Streams()
	return append(all,
		written(artifactLayout, c.NewArtifacts(), artifactValues), written(resultLayout, c.Outcomes, resultValues), written(eventLayout, c.Events, eventValues),
		written(endedLayout, ended, endedValues), written(archivedLayout, kept, archivedValues), written(linkLayout, c.Links, linkValues), written(logLayout, c.Logs, logValues))
}

func run[K comparable, V any](l *Load, q *Query[K, V], load func(*Load, *Values[K, V])) {
	if is := l.Rows.read[q.number]; is != nil && is.wanting() {
		load(l, q.of(l.Rows))
	}
}

// Recheck finds out which rows that were to be locked do not exist, and which ones other
// transactions have locked.
func (l *Load) Recheck(b Batch) {
	for _, v := range l.Rows.read {
		if v != nil && v.wanting() {
			v.recheck(b)
		}
	}
}

// Settle ends the load: what was wanted and not found does not exist.
func (l *Load) Settle() {
	for _, v := range l.Rows.read {
		if v != nil {
			v.settle()
		}
	}
}

// pickRows locks and reads the rows of a table, whose alias in the query is a letter.
func pickRows[R any](l *Load, v *Values[string, *R], alias, columns string, fields func(*R) []any, key func(*R) string) {
	keys := v.Keys()
	if v.q.kind == "uuid" {
		keys = IDs(keys)
	}
	l.Pick(scan(fields, func(r *R) { v.Set(key(r), r) }), `SELECT `+columns+` FROM `+v.q.from+` `+alias, alias+"."+v.q.column, v.q.kind, keys, l.lock(alias))
}

// scan returns a function that scans a row into fields and passes the value to take.
func scan[T any](fields func(*T) []any, take func(*T)) func(Row) error {
	return func(r Row) error {
		v := new(T)
		if err := r.Scan(fields(v)...); err != nil {
			return err
		}
		take(v)
		return nil
	}
}

// keyed is a value and its key.
type keyed[V any] struct {
	key   string
	value V
}

func keyedFields[V any](k *keyed[V]) []any { return []any{&k.key, &k.value} }

// Column returns one value of every row, as an array parameter.
func Column[T, V any](rows []T, value func(T) V) []V {
	c := make([]V, len(rows))
	for i, r := range rows {
		c[i] = value(r)
	}
	return c
}
