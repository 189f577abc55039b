-- Times are Unix milliseconds, JSON is TEXT. seq is the rowid: the paging key of
-- every list, newest first. Small columns that change come first in a row and
-- large ones last, so that reading a task's state never touches its prompt.

-- +goose Up
CREATE TABLE llm_tasks (
  seq               INTEGER PRIMARY KEY,
  id                TEXT    NOT NULL UNIQUE,
  status            TEXT    NOT NULL CHECK (status IN ('queued','leased','running','completed','failed','dead','cancelled')),
  gate              TEXT             CHECK (gate IN ('open','delayed','ordered')),
  updated_at        INTEGER NOT NULL,
  lease_id          TEXT,
  worker_id         TEXT,
  attempts          INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND max_attempts),
  max_attempts      INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 10),
  run_at            INTEGER NOT NULL,
  error_class       TEXT,
  cancel_requested  INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  epoch             INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= attempts),
  ordered           INTEGER NOT NULL DEFAULT 0 CHECK (ordered IN (0, 1)),
  priority          INTEGER NOT NULL DEFAULT 0,
  label_key         TEXT    NOT NULL DEFAULT '',
  preferred_worker  TEXT,
  preferred_until   INTEGER NOT NULL DEFAULT 0,
  context_id        TEXT    NOT NULL,
  agent_slug        TEXT    NOT NULL,
  created_at        INTEGER NOT NULL,
  desired_format    TEXT    NOT NULL CHECK (desired_format IN ('text','json')),
  timeout_sec       INTEGER NOT NULL,
  budget            INTEGER NOT NULL,
  labels            TEXT    NOT NULL DEFAULT '[]',
  idempotency_scope TEXT,
  idempotency_key   TEXT,
  body_hash         TEXT    NOT NULL DEFAULT '',
  context_hints     TEXT    NOT NULL DEFAULT '[]',
  prompt            TEXT    NOT NULL,
  CHECK ((status = 'queued') = (gate IS NOT NULL)),
  CHECK (status <> 'queued' OR (lease_id IS NULL AND worker_id IS NULL)),
  CHECK (status NOT IN ('leased','running','completed','dead') OR (lease_id IS NOT NULL AND worker_id IS NOT NULL))
);
-- The queue: a claim walks the distinct label_keys and reads the best of each.
CREATE INDEX llm_tasks_queue    ON llm_tasks (label_key, priority DESC, seq) WHERE status = 'queued' AND gate = 'open';
CREATE INDEX llm_tasks_delayed  ON llm_tasks (run_at)           WHERE status = 'queued' AND gate = 'delayed';
CREATE INDEX llm_tasks_ordered  ON llm_tasks (context_id, seq)  WHERE ordered = 1 AND status IN ('queued','leased','running');
CREATE INDEX llm_tasks_prefers  ON llm_tasks (preferred_worker, preferred_until) WHERE status = 'queued' AND preferred_worker IS NOT NULL;
-- Held tasks are found by their leases, and nearly all others are completed: a
-- task's way to success moves nothing here.
CREATE INDEX llm_tasks_status   ON llm_tasks (status, seq)      WHERE status IN ('queued','failed','dead','cancelled');
CREATE INDEX llm_tasks_context  ON llm_tasks (context_id, seq);
CREATE INDEX llm_tasks_agent    ON llm_tasks (agent_slug, seq);
CREATE INDEX llm_tasks_worker   ON llm_tasks (worker_id, seq)   WHERE worker_id IS NOT NULL;
CREATE UNIQUE INDEX llm_tasks_idempotency ON llm_tasks (idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;

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
  context_id     TEXT
);
CREATE UNIQUE INDEX leases_one_active ON leases (task_id) WHERE status = 'active';
CREATE INDEX leases_held    ON leases (worker_id, context_id) WHERE status = 'active';
CREATE INDEX leases_status  ON leases (status, seq) WHERE status IN ('expired','failed');
CREATE INDEX leases_context ON leases (context_id, seq);

-- instance_seen is the last direct contact of the living process instance_id;
-- last_heartbeat is the last contact from any side.
CREATE TABLE workers (
  id              TEXT    NOT NULL PRIMARY KEY,
  node_id         TEXT    NOT NULL,
  url             TEXT    NOT NULL DEFAULT '',
  status          TEXT    NOT NULL CHECK (status IN ('online','offline','syncing','error','unknown')),
  claude_cli      INTEGER NOT NULL CHECK (claude_cli IN (0, 1)),
  max_concurrency INTEGER NOT NULL CHECK (max_concurrency BETWEEN 1 AND 32),
  labels          TEXT    NOT NULL DEFAULT '[]',
  last_heartbeat  INTEGER,
  ip_addrs        TEXT    NOT NULL DEFAULT '[]',
  obs_count       INTEGER NOT NULL DEFAULT 0,
  db_sha          TEXT    NOT NULL DEFAULT '',
  registered_at   INTEGER NOT NULL,
  agent_version   TEXT    NOT NULL DEFAULT '',
  os_info         TEXT    NOT NULL DEFAULT '',
  install_method  TEXT    NOT NULL DEFAULT '',
  instance_id     TEXT    NOT NULL DEFAULT '',
  instance_seen   INTEGER NOT NULL DEFAULT 0,
  draining        INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
  removed         INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1))
);

CREATE TABLE runtime_artifacts (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  task_id     TEXT    NOT NULL REFERENCES llm_tasks (id),
  job_id      TEXT,
  type        TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  finalized   INTEGER NOT NULL CHECK (finalized IN (0, 1)),
  url         TEXT,
  entity_refs TEXT    NOT NULL DEFAULT '[]',
  tags        TEXT    NOT NULL DEFAULT '[]',
  size        INTEGER NOT NULL CHECK (size >= 0),
  sha256      TEXT    NOT NULL,
  media_type  TEXT    NOT NULL,
  content     TEXT,
  CHECK (url IS NULL OR content IS NULL)
);
CREATE INDEX runtime_artifacts_task ON runtime_artifacts (task_id, seq);

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
CREATE UNIQUE INDEX task_events_worker ON task_events (task, epoch, worker_seq) WHERE worker_seq IS NOT NULL;

CREATE TABLE audit_logs (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL,
  timestamp   INTEGER NOT NULL,
  action      TEXT    NOT NULL,
  entity_type TEXT    NOT NULL,
  entity_id   TEXT    NOT NULL,
  actor       TEXT    NOT NULL,
  detail      TEXT    NOT NULL,
  data        TEXT    NOT NULL DEFAULT 'null'
);
CREATE INDEX audit_logs_entity ON audit_logs (entity_id, seq);
-- What every task goes through is found soon enough without an index.
CREATE INDEX audit_logs_action ON audit_logs (action, seq)
  WHERE action NOT IN ('task_created','task_leased','task_started','task_completed');

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
