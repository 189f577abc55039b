-- Times are Unix milliseconds, JSON is TEXT, costs are billionths of a US dollar. seq is the
-- rowid: the paging key of every list, newest first. Small columns that change come first in a
-- row and large ones last, so that reading a task's state never touches its prompt. Each index
-- names the query that needs it, or the rule that it keeps.

-- +goose Up
-- created_by is who created a task: with one key no more than so many may be queued.
-- errors are the attempts that were retried because of an error, not those that were lost.
-- attachments is a JSON array.
-- request_id is the id of the request that created it, which logs name. last_event is where the
-- numbering of the stream goes on after its events were removed; a task whose events are there
-- does not need it.
CREATE TABLE llm_tasks (
  seq               INTEGER PRIMARY KEY,
  id                TEXT    NOT NULL UNIQUE,
  status            TEXT    NOT NULL CHECK (status IN ('queued','leased','running','completed','failed','dead','cancelled')),
  gate              TEXT             CHECK (gate IN ('open','delayed','ordered','approval')),
  updated_at        INTEGER NOT NULL,
  lease_id          TEXT,
  worker_id         TEXT,
  attempts          INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND max_attempts),
  errors            INTEGER NOT NULL DEFAULT 0 CHECK (errors BETWEEN 0 AND attempts),
  max_attempts      INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 10),
  run_at            INTEGER NOT NULL,
  error_class       TEXT,
  cancel_requested  INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  epoch             INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= attempts),
  last_event        INTEGER NOT NULL DEFAULT 0 CHECK (last_event >= 0),
  approval          TEXT    NOT NULL DEFAULT '',
  ordered           INTEGER NOT NULL DEFAULT 0 CHECK (ordered IN (0, 1)),
  priority          INTEGER NOT NULL DEFAULT 0,
  label_key         TEXT    NOT NULL DEFAULT '', -- see schema.LabelKey
  preferred_worker  TEXT,
  preferred_until   INTEGER NOT NULL DEFAULT 0,
  context_id        TEXT    NOT NULL,
  agent_slug        TEXT    NOT NULL,
  created_at        INTEGER NOT NULL,
  created_by        TEXT    NOT NULL DEFAULT '',
  request_id        TEXT,
  desired_format    TEXT    NOT NULL CHECK (desired_format IN ('text','json')),
  timeout_sec       INTEGER NOT NULL,
  budget            INTEGER NOT NULL,
  workspace         TEXT    NOT NULL DEFAULT '',
  labels            TEXT    NOT NULL DEFAULT '[]',
  idempotency_scope TEXT,
  idempotency_key   TEXT,
  body_hash         TEXT    NOT NULL DEFAULT '',
  artifact_globs    TEXT    NOT NULL DEFAULT '[]',
  attachments       TEXT    NOT NULL DEFAULT '',
  ask               TEXT    NOT NULL DEFAULT '',
  context_hints     TEXT    NOT NULL DEFAULT '[]',
  prompt            TEXT    NOT NULL,
  CHECK ((status = 'queued') = (gate IS NOT NULL)),
  CHECK (status <> 'queued' OR (lease_id IS NULL AND worker_id IS NULL)),
  CHECK (status NOT IN ('leased','running','completed','dead') OR (lease_id IS NOT NULL AND worker_id IS NOT NULL))
);
-- Only a queued task has a gate. Indexes of queued tasks that say no more than that have nothing
-- to do with a task on its way to its end.
-- The queue: a claim walks the distinct label_keys and reads the best of each.
CREATE INDEX llm_tasks_queue      ON llm_tasks (label_key, priority DESC, seq) WHERE gate = 'open';
-- Which delayed tasks are due, and when the next one is.
CREATE INDEX llm_tasks_delayed    ON llm_tasks (run_at)          WHERE gate = 'delayed';
-- Whether an ordered task is the first of its context, and which one is next.
CREATE INDEX llm_tasks_ordered    ON llm_tasks (context_id, seq) WHERE ordered = 1 AND status IN ('queued','leased','running');
-- Which tasks wait for a worker, before others may have them.
CREATE INDEX llm_tasks_prefers    ON llm_tasks (preferred_worker, preferred_until) WHERE preferred_worker IS NOT NULL;
-- How many tasks an actor has queued.
CREATE INDEX llm_tasks_created_by ON llm_tasks (created_by)      WHERE gate IS NOT NULL;
-- Lists by status. Held tasks are found by their leases, and nearly all others are completed: a
-- task's way to success moves nothing here.
CREATE INDEX llm_tasks_status     ON llm_tasks (status, seq)     WHERE status IN ('queued','failed','dead','cancelled');
-- Lists by context, by agent and by worker.
CREATE INDEX llm_tasks_context    ON llm_tasks (context_id, seq);
CREATE INDEX llm_tasks_agent      ON llm_tasks (agent_slug, seq);
CREATE INDEX llm_tasks_worker     ON llm_tasks (worker_id, seq)  WHERE worker_id IS NOT NULL;
-- A key names one task, however often it is sent.
CREATE UNIQUE INDEX llm_tasks_idempotency ON llm_tasks (idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- tokens and cost are what the lease's attempt has used: as its worker last reported, and as
-- completed once it has ended.
CREATE TABLE leases (
  seq            INTEGER PRIMARY KEY,
  id             TEXT    NOT NULL UNIQUE,
  task_id        TEXT    NOT NULL REFERENCES llm_tasks (id),
  worker_id      TEXT    NOT NULL,
  epoch          INTEGER NOT NULL CHECK (epoch > 0),
  status         TEXT    NOT NULL CHECK (status IN ('active','expired','released','failed')),
  started_at     INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  ttl_seconds    INTEGER NOT NULL CHECK (ttl_seconds BETWEEN 1 AND 7200),
  last_heartbeat INTEGER NOT NULL,
  tokens         INTEGER NOT NULL DEFAULT 0,
  tokens_in      INTEGER NOT NULL DEFAULT 0,
  tokens_out     INTEGER NOT NULL DEFAULT 0,
  cost           INTEGER NOT NULL DEFAULT 0,
  context_id     TEXT
);
-- A task has one active lease at most.
CREATE UNIQUE INDEX leases_one_active ON leases (task_id) WHERE status = 'active';
-- What a worker holds, and which workers hold a context.
CREATE INDEX leases_held   ON leases (worker_id, context_id) WHERE status = 'active';
-- Lists of lost leases.
CREATE INDEX leases_status ON leases (status, seq) WHERE status IN ('expired','failed');
-- A task's leases, to be listed and removed with it. A task that has ended holds none.
CREATE INDEX leases_ended  ON leases (task_id) WHERE status <> 'active';

-- instance_seen is the last direct contact of the living process instance_id;
-- last_heartbeat is the last contact from any side. Draining is two levels: draining is the
-- runtime's own, control_draining the control plane's as it was last heard. posted_at is when
-- the worker was last registered at the control plane, by that clock: one that was removed
-- comes back when it is registered there later. pause is why a worker takes no tasks for a
-- while: its credentials are refused or limited. agents are what its claude knows by name: the
-- form for a new task offers them.
CREATE TABLE workers (
  id               TEXT    NOT NULL PRIMARY KEY,
  node_id          TEXT    NOT NULL,
  url              TEXT    NOT NULL DEFAULT '',
  status           TEXT    NOT NULL CHECK (status IN ('online','offline','syncing','error','unknown')),
  claude_cli       INTEGER NOT NULL CHECK (claude_cli IN (0, 1)),
  max_concurrency  INTEGER NOT NULL CHECK (max_concurrency BETWEEN 1 AND 32),
  labels           TEXT    NOT NULL DEFAULT '[]',
  last_heartbeat   INTEGER,
  ip_addrs         TEXT    NOT NULL DEFAULT '[]',
  obs_count        INTEGER NOT NULL DEFAULT 0,
  db_sha           TEXT    NOT NULL DEFAULT '',
  registered_at    INTEGER NOT NULL,
  posted_at        INTEGER NOT NULL DEFAULT 0,
  agent_version    TEXT    NOT NULL DEFAULT '',
  os_info          TEXT    NOT NULL DEFAULT '',
  install_method   TEXT    NOT NULL DEFAULT '',
  instance_id      TEXT    NOT NULL DEFAULT '',
  instance_seen    INTEGER NOT NULL DEFAULT 0,
  draining         INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
  control_draining INTEGER NOT NULL DEFAULT 0 CHECK (control_draining IN (0, 1)),
  removed          INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1)),
  pause            TEXT    NOT NULL DEFAULT 'null',
  agents           TEXT    NOT NULL DEFAULT '[]',
  setup            TEXT    NOT NULL DEFAULT 'null'
);
-- Removed workers are kept; lists, numbers and the choice of a worker need only the others.
CREATE INDEX workers_present ON workers (id) WHERE NOT removed;

-- The last log lines that each worker reported: one row a worker.
CREATE TABLE worker_logs (
  worker_id  TEXT    NOT NULL PRIMARY KEY,
  updated_at INTEGER NOT NULL,
  lines      TEXT    NOT NULL
);

-- A run's output, files that its task asks for, and the transcript of its events. displaced:
-- the content lies where it should not stay, because the object storage was away when the task
-- ended; it is moved when the storage is back.
CREATE TABLE runtime_artifacts (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  task_id     TEXT    NOT NULL REFERENCES llm_tasks (id),
  epoch       INTEGER,
  job_id      TEXT,
  type        TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  finalized   INTEGER NOT NULL CHECK (finalized IN (0, 1)),
  displaced   INTEGER NOT NULL DEFAULT 0 CHECK (displaced IN (0, 1)),
  url         TEXT,
  path        TEXT,
  entity_refs TEXT    NOT NULL DEFAULT '[]',
  tags        TEXT    NOT NULL DEFAULT '[]',
  size        INTEGER NOT NULL CHECK (size >= 0),
  sha256      TEXT    NOT NULL,
  media_type  TEXT    NOT NULL,
  content     TEXT,
  CHECK (url IS NULL OR content IS NULL)
);
-- Lists by task.
CREATE INDEX runtime_artifacts_task      ON runtime_artifacts (task_id, seq);
-- A path is unique within an attempt.
CREATE UNIQUE INDEX runtime_artifacts_path ON runtime_artifacts (task_id, epoch, path) WHERE path IS NOT NULL;
-- What is to be moved.
CREATE INDEX runtime_artifacts_displaced ON runtime_artifacts (seq) WHERE displaced = 1;
-- Lists of files, which are few among results.
CREATE INDEX runtime_artifacts_files     ON runtime_artifacts (seq) WHERE type = 'FILE';

-- A result's output is its artifact's content: it is kept once.
CREATE TABLE llm_results (
  seq           INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL,
  task_id       TEXT    NOT NULL REFERENCES llm_tasks (id),
  epoch         INTEGER NOT NULL CHECK (epoch > 0),
  worker_id     TEXT    NOT NULL,
  artifact_id   TEXT    NOT NULL REFERENCES runtime_artifacts (id),
  status        TEXT    NOT NULL CHECK (status IN ('success','error')),
  error_class   TEXT,
  metrics       TEXT    NOT NULL,
  completed_at  INTEGER NOT NULL,
  body_hash     TEXT    NOT NULL,
  error_message TEXT,
  UNIQUE (task_id, epoch)
);

-- task is llm_tasks.seq: half the size of the id in the table that grows most.
CREATE TABLE task_events (
  task       INTEGER NOT NULL,
  seq        INTEGER NOT NULL CHECK (seq > 0),
  type       TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  worker_seq INTEGER,
  data       TEXT    NOT NULL,
  PRIMARY KEY (task, seq)
) WITHOUT ROWID;
-- An event that a worker sends again is stored once.
CREATE UNIQUE INDEX task_events_worker ON task_events (task, epoch, worker_seq) WHERE worker_seq IS NOT NULL;

-- Up to which event a task's stream lies in transcripts, and whether it has ended since.
CREATE TABLE run_transcripts (
  task INTEGER PRIMARY KEY,
  upto INTEGER NOT NULL DEFAULT 0,
  due  INTEGER NOT NULL DEFAULT 0 CHECK (due IN (0, 1))
);
-- Which transcripts are to be written.
CREATE INDEX run_transcripts_due ON run_transcripts (task) WHERE due = 1;

-- What the tasks of a context have in common, kept by the transactions that change tasks. seq
-- is the number of its newest task, by which contexts are listed.
CREATE TABLE contexts (
  id           TEXT    NOT NULL PRIMARY KEY,
  seq          INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  tasks        INTEGER NOT NULL,
  unfinished   INTEGER NOT NULL,
  tokens       INTEGER NOT NULL DEFAULT 0,
  cost_nano    INTEGER NOT NULL DEFAULT 0,
  worker_id    TEXT,
  name         TEXT    NOT NULL DEFAULT '',
  folded       TEXT    NOT NULL DEFAULT '', -- the name in lower case, to be searched
  pinned       INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1))
);
-- Lists, and retention.
CREATE INDEX contexts_seq ON contexts (seq);
CREATE INDEX contexts_pinned ON contexts (seq) WHERE pinned = 1;

-- The transcripts and working folders of contexts: where their parts lie in the blob store.
-- folder is the place of a transcript's parts there.
CREATE TABLE transcripts (
  context_id     TEXT    NOT NULL PRIMARY KEY,
  folder         TEXT    NOT NULL UNIQUE,
  updated_at     INTEGER NOT NULL,
  size           INTEGER NOT NULL,
  session_id     TEXT    NOT NULL,
  sha256         TEXT    NOT NULL,
  parts          TEXT    NOT NULL,
  workspace      TEXT    NOT NULL DEFAULT '',
  workspace_size INTEGER NOT NULL DEFAULT 0
);
-- Transcripts of which a part lies in a server's folder: with object storage, those that are to
-- be moved there.
CREATE INDEX transcripts_local ON transcripts (context_id) WHERE instr(parts, '"file:') + instr(workspace, '"file:') > 0;

-- Contexts that were forgotten, for workers to forget them too. A number is used once.
CREATE TABLE forgotten_contexts (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  context_id TEXT    NOT NULL
);

-- Content in the blob store whose artifact was removed and that is to be deleted. A number is
-- used once.
CREATE TABLE removed_contents (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  url        TEXT    NOT NULL,
  removed_at INTEGER NOT NULL
);

CREATE TABLE audit_logs (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL,
  timestamp   INTEGER NOT NULL,
  action      TEXT    NOT NULL,
  entity_type TEXT    NOT NULL,
  entity_id   TEXT    NOT NULL,
  actor       TEXT    NOT NULL,
  detail      TEXT    NOT NULL,
  data        TEXT    NOT NULL DEFAULT 'null',
  key_id      TEXT    NOT NULL DEFAULT '',
  address     TEXT    NOT NULL DEFAULT ''
);
-- Lists by what an entry is about, and by action. What every task goes through is found soon
-- enough without an index.
CREATE INDEX audit_logs_entity ON audit_logs (entity_id, seq);
CREATE INDEX audit_logs_action ON audit_logs (action, seq)
  WHERE action NOT IN ('task_created','task_leased','task_started','task_completed');

-- The audit's chain: each entry's hash covers the hash before it. Where retention has removed an
-- entry and the next one stays, its hash stays, with the time of the removal.
CREATE TABLE audit_chain (
  seq        INTEGER PRIMARY KEY,
  hash       BLOB    NOT NULL CHECK (length(hash) = 32),
  removed_at INTEGER
);
-- The last entry that is chained.
CREATE TABLE audit_head (
  one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  seq  INTEGER NOT NULL,
  hash BLOB    NOT NULL CHECK (length(hash) = 32)
);
INSERT INTO audit_head (one, seq, hash) VALUES (1, 0, zeroblob(32));
-- The last entry in an exported file, and the last one of the file being written. branch is how
-- often the database was found to be older than the files, because a backup was restored.
CREATE TABLE audit_export (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  exported INTEGER NOT NULL,
  hash     TEXT    NOT NULL,
  planned  INTEGER NOT NULL,
  branch   INTEGER NOT NULL DEFAULT 0
);
INSERT INTO audit_export (one, exported, hash, planned) VALUES (1, 0, '', 0);

CREATE TABLE runtime_settings (
  key        TEXT    NOT NULL PRIMARY KEY,
  value      TEXT    NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE users (
  id         TEXT    NOT NULL PRIMARY KEY,
  username   TEXT    NOT NULL UNIQUE,
  password   TEXT    NOT NULL,
  role       TEXT    NOT NULL,
  created_at INTEGER NOT NULL
);

-- Keys created with `bloom keys`: the key itself is stored nowhere, digest is its SHA-256 in hex.
CREATE TABLE schedules (
  name       TEXT    NOT NULL PRIMARY KEY,
  spec       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL,
  next_at    INTEGER,
  recent     TEXT    NOT NULL
);
CREATE INDEX schedules_next ON schedules (next_at) WHERE next_at IS NOT NULL;

-- Requests to people. One is known by its task, the call and its input.
CREATE TABLE approvals (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  task_id      TEXT    NOT NULL,
  context_id   TEXT    NOT NULL,
  worker_id    TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  tool         TEXT    NOT NULL,
  tool_use_id  TEXT    NOT NULL,
  input        TEXT    NOT NULL,
  input_sha256 TEXT    NOT NULL,
  readable     TEXT    NOT NULL,
  status       TEXT    NOT NULL CHECK (status IN ('pending','allowed','denied','expired','cancelled')),
  asked_at     INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  decided_at   INTEGER,
  decided_by   TEXT,
  message      TEXT    NOT NULL DEFAULT '',
  answers      TEXT    NOT NULL DEFAULT 'null',
  used_by      TEXT    NOT NULL DEFAULT ''
);
-- Lists of what waits, and which expires next.
CREATE INDEX approvals_pending ON approvals (status, seq) WHERE status = 'pending';
-- A task's requests, to be listed and removed with it.
CREATE INDEX approvals_task    ON approvals (task_id, seq);

CREATE TABLE api_keys (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  name         TEXT    NOT NULL,
  role         TEXT    NOT NULL CHECK (role IN ('admin','client','worker','approver','viewer')),
  worker_id    TEXT,
  digest       TEXT    NOT NULL CHECK (length(digest) = 64),
  created_at   INTEGER NOT NULL,
  created_by   TEXT    NOT NULL,
  expires_at   INTEGER,
  last_used_at INTEGER,
  revoked_at   INTEGER,
  CHECK (worker_id IS NULL OR role = 'worker')
);

-- Sign-ins of browsers. The cookie is sealed with the key in the data directory; turn tells its
-- newest form from older ones.
CREATE TABLE sessions (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  name         TEXT    NOT NULL,
  role         TEXT    NOT NULL CHECK (role IN ('admin','client','worker','approver','viewer')),
  key_id       TEXT,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  address      TEXT    NOT NULL,
  user_agent   TEXT    NOT NULL,
  turn         INTEGER NOT NULL,
  turned_at    INTEGER NOT NULL
);

-- What stats shows, kept by deltas so that nobody ever counts tasks.
CREATE TABLE counters (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  queued    INTEGER NOT NULL DEFAULT 0,
  leased    INTEGER NOT NULL DEFAULT 0,
  running   INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  failed    INTEGER NOT NULL DEFAULT 0,
  dead      INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  leases    INTEGER NOT NULL DEFAULT 0,
  active    INTEGER NOT NULL DEFAULT 0
);
INSERT INTO counters (one) VALUES (1);

-- What happened to tasks by the minute, later by the hour, kept by the transactions that change
-- them; and samples of the queue.
CREATE TABLE task_series (
  at         INTEGER PRIMARY KEY,
  created    INTEGER NOT NULL DEFAULT 0,
  started    INTEGER NOT NULL DEFAULT 0,
  completed  INTEGER NOT NULL DEFAULT 0,
  failed     INTEGER NOT NULL DEFAULT 0,
  dead       INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  tokens     INTEGER NOT NULL DEFAULT 0,
  tokens_in  INTEGER NOT NULL DEFAULT 0,
  tokens_out INTEGER NOT NULL DEFAULT 0,
  cost       INTEGER NOT NULL DEFAULT 0,
  queued     INTEGER,
  running    INTEGER,
  wait       INTEGER
);

-- Tasks whose texts were changed by a transaction, for the index of words, which lies in a file
-- of its own. search_rounds counts the batches that entered the index, so that an index of
-- another state of this file is noticed.
CREATE TABLE search_queue (
  id    INTEGER PRIMARY KEY,
  tasks TEXT NOT NULL
);
-- Tasks whose output could not be read.
CREATE TABLE search_retries (
  task  INTEGER PRIMARY KEY,
  due   INTEGER NOT NULL,
  tries INTEGER NOT NULL
);
-- Which of them to try again.
CREATE INDEX search_retries_due ON search_retries (due);
CREATE TABLE search_rounds (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  rounds INTEGER NOT NULL
);
INSERT INTO search_rounds (one, rounds) VALUES (1, 0);
