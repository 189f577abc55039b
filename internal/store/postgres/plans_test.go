package postgres_test

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// explained makes the server send the plan of every statement, with its execution, on the
// connection that ran it.
const explained = "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on " +
	"-c auto_explain.log_timing=off -c auto_explain.log_level=notice -c client_min_messages=notice"

// many is how many tasks are stored; no statement may read more than a small part of them. A list
// with a filter that no index answers reads at most a window of them.
const (
	many   = 30_000
	few    = 2_000
	window = 20_000
)

// fill stores many tasks of every status, with everything that belongs to them.
const fill = `
INSERT INTO llm_tasks (seq, id, status, gate, updated_at, lease_id, worker_id, attempts, max_attempts, run_at, epoch, ordered, label_key, labels, context_id, agent_slug,
	created_at, desired_format, timeout_sec, budget, prompt, last_event)
SELECT 1000 + n, md5(n::text)::uuid, s, CASE WHEN s = 'queued' THEN CASE n % 3 WHEN 0 THEN 'open' WHEN 1 THEN 'delayed' ELSE 'ordered' END END, 1,
	CASE WHEN s <> 'queued' THEN md5('l' || n)::uuid END, CASE WHEN s <> 'queued' THEN 'w' || n % 7 END, 1, 3,
	CASE WHEN n % 3 = 1 THEN 9999999999999 ELSE 1 END, 1, n % 3 = 2 AND s = 'queued', CASE WHEN n % 9 > 0 THEN encode(sha256(('other' || n)::bytea), 'hex') ELSE '' END,
	CASE WHEN n % 9 > 0 THEN jsonb_build_array('other' || n) ELSE '[]' END,
	'c' || n % 5000, 'a' || n % 100, 1, 'text', 1, 0, 'prompt ' || n, 4
FROM (SELECT n, CASE WHEN n % 10 < 4 THEN 'completed' WHEN n % 10 = 4 THEN 'failed' WHEN n % 10 = 5 THEN 'dead' ELSE 'queued' END AS s
	FROM generate_series(1, 30000) n) x;
SELECT setval('llm_tasks_seq', 31000);
INSERT INTO workers (id, node_id, status, claude_cli, max_concurrency, registered_at, removed)
SELECT 'gone' || n, 'gone', CASE WHEN n % 2 = 0 THEN 'online' ELSE 'offline' END, true, 1, 1, true FROM generate_series(1, 30000) n;
INSERT INTO leases (id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id)
SELECT md5('l' || n)::uuid, md5(n::text)::uuid, 'w' || n % 7, 1, CASE WHEN n % 10 = 5 THEN 'expired' ELSE 'released' END, 1, 1, 60, 1, 'c' || n % 5000
FROM generate_series(1, 30000) n;
INSERT INTO task_events (task, seq, at, epoch, worker_seq, type, data)
SELECT 1000 + n, s, 1, 1, s, 'text', '{}' FROM generate_series(1, 30000) n, generate_series(1, 4) s;
INSERT INTO audit_logs (timestamp, id, action, entity_type, entity_id, actor, detail)
SELECT 1, md5(n::text)::uuid, (ARRAY['task_created','task_leased','task_started','task_completed'])[1 + n % 4], 'llm_task', md5(n::text), 'x', 'x' FROM generate_series(1, 30000) n;
INSERT INTO runtime_artifacts (created_at, size, finalized, id, task_id, type, sha256, media_type, content)
SELECT 1, 1, true, md5('a' || n)::uuid, md5(n::text)::uuid, 't', 's', 'm', 'x' FROM generate_series(1, 30000) n;
INSERT INTO llm_results (task_id, epoch, completed_at, id, artifact_id, worker_id, status, metrics, body_hash)
SELECT md5(n::text)::uuid, 1, 1, md5('r' || n)::uuid, md5('a' || n)::uuid, 'w', 'success', '{}', 'h' FROM generate_series(1, 30000) n;
INSERT INTO contexts (id, seq, created_at, last_used_at, updated_at, tasks, unfinished) SELECT 'x' || n, 1000 + n, 1, 1, 1, 1, (n % 50 = 0)::int FROM generate_series(1, 30000) n;
INSERT INTO transcripts (context_id, folder, updated_at, size, session_id, sha256, parts)
SELECT 'x' || n, md5(n::text), 1, 1, 's', 's', '[{"url":"file:' || n || '","size":1}]' FROM generate_series(1, 30000) n;
INSERT INTO forgotten_contexts (at, context_id) SELECT 1, 'y' || n FROM generate_series(1, 30000) n;
INSERT INTO task_search (task, words)
SELECT 1000 + n, (format('''#12-%s'' ''#16-0'' ''#20-0'' prompt common rare%s v%s', (1000 + n) >> 12, n % 3000, n % 100))::tsvector FROM generate_series(1, 30000) n`

func TestNoStatementReadsWhatOnlyGrows(t *testing.T) {
	t.Parallel()
	plain := migrated.Start(t)
	cut, address := startCutter(t, plain)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("options", explained)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	// One store caches what it has just done; two that alternate have to read it.
	s := open(t, u.String(), nil)
	both := &pair{stores: [2]*postgres.Store{s, open(t, u.String(), nil)}}
	filler := connect(t, plain)
	for _, analyze := range []string{"", "ANALYZE"} {
		if analyze == "" {
			// The plans of a database that has grown since they were prepared.
			everything(t, s, "before")
			everything(t, both, "before both")
			if _, err := filler.Exec(t.Context(), fill); err != nil {
				t.Fatal(err)
			}
		} else if _, err := filler.Exec(t.Context(), analyze); err != nil {
			t.Fatal(err)
		}
		plans := cut.record()
		everything(t, s, "with"+analyze)
		everything(t, both, "both"+analyze)
		checkPlans(t, plans())
	}
}

var (
	nodeRows = regexp.MustCompile(`actual rows=(\d+) loops=(\d+)`)
	windowed = regexp.MustCompile(`OFFSET 19999|\|\| '' = `)
	removed  = regexp.MustCompile(`Rows Removed by (?:Filter|Index Recheck|Join Filter): (\d+)`)
)

// checkPlans checks the executed plans: no scan of a table that grows, and no node that read more
// rows than it may.
func checkPlans(t *testing.T, log string) {
	t.Helper()
	statements := strings.Split(log, "Query Text: ")[1:]
	if len(statements) < 60 {
		t.Fatalf("only %d plans were recorded: nothing was checked", len(statements))
	}
	for _, s := range statements {
		s, _, _ = strings.Cut(s, "\x00")
		most := 0
		for _, m := range nodeRows.FindAllStringSubmatch(s, -1) {
			rows, _ := strconv.Atoi(m[1])
			loops, _ := strconv.Atoi(m[2])
			most = max(most, rows*loops)
		}
		for _, m := range removed.FindAllStringSubmatch(s, -1) {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
		for _, table := range []string{"llm_tasks", "workers", "leases", "task_events", "audit_logs", "runtime_artifacts", "llm_results", "contexts", "transcripts", "forgotten_contexts", "task_search"} {
			if strings.Contains(s, "Seq Scan on "+table) {
				most = many
			}
		}
		allowed := few
		if windowed.MatchString(s) {
			allowed = window
		}
		if most > allowed {
			t.Errorf("touches %d rows:\n%s", most, s)
		}
	}
}
