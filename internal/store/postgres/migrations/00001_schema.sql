-- Times are Unix milliseconds, costs are billionths of a US dollar. seq is the paging key of
-- every list, newest first. Columns of one size stand together, the widest first, so that rows
-- need no padding. Each index names the query that needs it, or the rule that it keeps.
--
-- A row that moves on must not cost an entry in every index of its table: no
-- index names llm_tasks.status, which changes with every step. What indexes need
-- of it (gate, phase, pending) changes seldom, so that start and completion stay
-- within their page (HOT), for which the fill factors leave room.
--
-- There are no foreign keys between tasks and what belongs to them: each would lock and look up
-- the row it points to for every insert. Rows are only ever written together, in the transaction
-- that has locked their task.

-- +goose Up
-- created_by is who created a task: with one key no more than so many may be queued.
-- errors are the attempts that were retried because of an error, not those that were lost.
-- attachments is a JSON array.
-- request_id is the id of the request that created it, which logs name. last_event is the number
-- of the stream's last event.
CREATE TABLE llm_tasks (
  seq               bigint   PRIMARY KEY,
  updated_at        bigint   NOT NULL,
  run_at            bigint   NOT NULL,
  epoch             bigint   NOT NULL DEFAULT 0 CHECK (epoch >= attempts),
  preferred_until   bigint   NOT NULL DEFAULT 0,
  last_event        bigint   NOT NULL DEFAULT 0 CHECK (last_event >= 0),
  approval          text     NOT NULL DEFAULT '',
  created_at        bigint   NOT NULL,
  budget            bigint   NOT NULL,
  timeout_sec       integer  NOT NULL,
  priority          integer  NOT NULL DEFAULT 0,
  attempts          smallint NOT NULL CHECK (attempts BETWEEN 0 AND max_attempts),
  errors            smallint NOT NULL DEFAULT 0 CHECK (errors BETWEEN 0 AND attempts),
  max_attempts      smallint NOT NULL CHECK (max_attempts BETWEEN 1 AND 10),
  cancel_requested  boolean  NOT NULL DEFAULT false,
  ordered           boolean  NOT NULL DEFAULT false,
  id                uuid     NOT NULL UNIQUE,
  lease_id          uuid,
  status            text     COLLATE "C" NOT NULL CHECK (status IN ('queued','leased','running','completed','failed','dead','cancelled')),
  gate              text     COLLATE "C"          CHECK (gate IN ('open','delayed','ordered','approval')),
  worker_id         text     COLLATE "C",
  preferred_worker  text     COLLATE "C",
  label_key         text     COLLATE "C" NOT NULL DEFAULT '', -- see schema.LabelKey
  context_id        text     COLLATE "C" NOT NULL,
  agent_slug        text     COLLATE "C" NOT NULL,
  created_by        text     COLLATE "C" NOT NULL DEFAULT '',
  request_id        text,
  error_class       text,
  desired_format    text     NOT NULL CHECK (desired_format IN ('text','json')),
  workspace         text     COLLATE "C" NOT NULL DEFAULT '',
  labels            jsonb    NOT NULL DEFAULT '[]',
  idempotency_scope text     COLLATE "C",
  idempotency_key   text     COLLATE "C",
  body_hash         text     NOT NULL DEFAULT '',
  artifact_globs    jsonb    NOT NULL DEFAULT '[]',
  attachments       text     NOT NULL DEFAULT '',
  ask               text     NOT NULL DEFAULT '',
  context_hints     jsonb    NOT NULL DEFAULT '[]',
  prompt            text     NOT NULL,
  -- Where it is listed by status; held and completed tasks are found otherwise.
  phase             text     COLLATE "C" GENERATED ALWAYS AS (CASE WHEN status IN ('queued','failed','dead','cancelled') THEN status END) STORED,
  -- An ordered task that later ones of its context wait for.
  pending           boolean  GENERATED ALWAYS AS (ordered AND status IN ('queued','leased','running')) STORED,
  CHECK ((status = 'queued') = (gate IS NOT NULL)),
  CHECK (status <> 'queued' OR (lease_id IS NULL AND worker_id IS NULL)),
  CHECK (status NOT IN ('leased','running','completed','dead') OR (lease_id IS NOT NULL AND worker_id IS NOT NULL)),
  CHECK ((idempotency_key IS NULL) = (idempotency_scope IS NULL))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE SEQUENCE llm_tasks_seq OWNED BY llm_tasks.seq;
-- Only a queued task has a gate.
-- The queue: a claim walks the distinct label_keys and reads the best of each.
CREATE INDEX llm_tasks_queue      ON llm_tasks (label_key, priority DESC, seq) WHERE gate = 'open';
-- Which delayed tasks are due, and when the next one is.
CREATE INDEX llm_tasks_delayed    ON llm_tasks (run_at)          WHERE gate = 'delayed';
-- Whether an ordered task is the first of its context, and which one is next.
CREATE INDEX llm_tasks_ordered    ON llm_tasks (context_id, seq) WHERE pending;
-- Which tasks wait for a worker, before others may have them.
CREATE INDEX llm_tasks_prefers    ON llm_tasks (preferred_worker, preferred_until) WHERE preferred_worker IS NOT NULL;
-- How many tasks an actor has queued. Who asks for no creator must not walk along this one.
CREATE INDEX llm_tasks_created_by ON llm_tasks (created_by)      WHERE gate IS NOT NULL AND created_by IS NOT NULL;
-- Lists by status, by context, by agent and by worker.
CREATE INDEX llm_tasks_phase      ON llm_tasks (phase, seq)      WHERE phase IS NOT NULL;
CREATE INDEX llm_tasks_context    ON llm_tasks (context_id, seq);
CREATE INDEX llm_tasks_agent      ON llm_tasks (agent_slug, seq);
CREATE INDEX llm_tasks_worker     ON llm_tasks (worker_id, seq)  WHERE worker_id IS NOT NULL;
-- A key names one task, however often it is sent.
CREATE UNIQUE INDEX llm_tasks_idempotency ON llm_tasks (idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- tokens and cost are what the lease's attempt has used: as its worker last reported, and as
-- completed once it has ended.
CREATE TABLE leases (
  seq            bigint  GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  epoch          bigint  NOT NULL CHECK (epoch > 0),
  started_at     bigint  NOT NULL,
  expires_at     bigint  NOT NULL,
  last_heartbeat bigint  NOT NULL,
  tokens         bigint  NOT NULL DEFAULT 0,
  tokens_in      bigint  NOT NULL DEFAULT 0,
  tokens_out     bigint  NOT NULL DEFAULT 0,
  cost           bigint  NOT NULL DEFAULT 0,
  ttl_seconds    integer NOT NULL CHECK (ttl_seconds BETWEEN 1 AND 7200),
  id             uuid    NOT NULL UNIQUE,
  task_id        uuid    NOT NULL,
  worker_id      text    COLLATE "C" NOT NULL,
  status         text    COLLATE "C" NOT NULL CHECK (status IN ('active','expired','released','failed')),
  context_id     text    COLLATE "C"
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- A task has one active lease at most.
CREATE UNIQUE INDEX leases_one_active ON leases (task_id) WHERE status = 'active';
-- What a worker holds, and which workers hold a context.
CREATE INDEX leases_held    ON leases (worker_id, context_id) WHERE status = 'active';
CREATE INDEX leases_holders ON leases (context_id)            WHERE status = 'active';
-- Lists of lost leases.
CREATE INDEX leases_lost    ON leases (status, seq)           WHERE status IN ('expired','failed');
-- A task's leases, to be listed and removed with it. A task that has ended holds none, and a
-- lease that ends gets new entries in its other indexes anyway.
CREATE INDEX leases_ended   ON leases (task_id)               WHERE status <> 'active';

-- instance_seen is the last direct contact of the living process instance_id;
-- last_heartbeat is the last contact from any side. Draining is two levels: draining is the
-- runtime's own, control_draining the control plane's as it was last heard. posted_at is when
-- the worker was last registered at the control plane, by that clock: one that was removed
-- comes back when it is registered there later. pause is why a worker takes no tasks for a
-- while: its credentials are refused or limited. agents are what its claude knows by name: the
-- form for a new task offers them.
CREATE TABLE workers (
  id               text    COLLATE "C" PRIMARY KEY,
  node_id          text    NOT NULL,
  url              text    NOT NULL DEFAULT '',
  status           text    NOT NULL CHECK (status IN ('online','offline','syncing','error','unknown')),
  claude_cli       boolean NOT NULL,
  max_concurrency  integer NOT NULL CHECK (max_concurrency BETWEEN 1 AND 32),
  labels           jsonb   NOT NULL DEFAULT '[]',
  last_heartbeat   bigint,
  ip_addrs         jsonb   NOT NULL DEFAULT '[]',
  obs_count        bigint  NOT NULL DEFAULT 0,
  db_sha           text    NOT NULL DEFAULT '',
  registered_at    bigint  NOT NULL,
  posted_at        bigint  NOT NULL DEFAULT 0,
  agent_version    text    NOT NULL DEFAULT '',
  os_info          text    NOT NULL DEFAULT '',
  install_method   text    NOT NULL DEFAULT '',
  instance_id      text    NOT NULL DEFAULT '',
  instance_seen    bigint  NOT NULL DEFAULT 0,
  draining         boolean NOT NULL DEFAULT false,
  control_draining boolean NOT NULL DEFAULT false,
  removed          boolean NOT NULL DEFAULT false,
  pause            jsonb   NOT NULL DEFAULT 'null',
  agents           jsonb   NOT NULL DEFAULT '[]',
  setup            jsonb   NOT NULL DEFAULT 'null'
) WITH (fillfactor = 50);
-- Removed workers are kept; lists, numbers and the choice of a worker need only the others.
CREATE INDEX workers_present ON workers (id) WHERE NOT removed;

-- The last log lines that each worker reported: one row a worker.
CREATE TABLE worker_logs (
  worker_id  text   COLLATE "C" PRIMARY KEY,
  updated_at bigint NOT NULL,
  lines      text   NOT NULL
);

-- A run's output, files that its task asks for, and the transcript of its events. displaced:
-- the content lies where it should not stay, because the object storage was away when the task
-- ended; it is moved when the storage is back.
CREATE TABLE runtime_artifacts (
  seq         bigint  GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  created_at  bigint  NOT NULL,
  size        bigint  NOT NULL CHECK (size >= 0),
  epoch       bigint,
  finalized   boolean NOT NULL,
  displaced   boolean NOT NULL DEFAULT false,
  id          uuid    NOT NULL UNIQUE,
  task_id     uuid    NOT NULL,
  job_id      text,
  type        text    NOT NULL,
  url         text,
  path        text    COLLATE "C",
  entity_refs jsonb   NOT NULL DEFAULT '[]',
  tags        jsonb   NOT NULL DEFAULT '[]',
  sha256      text    NOT NULL,
  media_type  text    NOT NULL,
  content     text,
  CHECK (url IS NULL OR content IS NULL)
);
-- Lists by task.
CREATE INDEX runtime_artifacts_task      ON runtime_artifacts (task_id, seq);
-- A path is unique within an attempt.
CREATE UNIQUE INDEX runtime_artifacts_path ON runtime_artifacts (task_id, epoch, path) WHERE path IS NOT NULL;
-- What is to be moved.
CREATE INDEX runtime_artifacts_displaced ON runtime_artifacts (seq) WHERE displaced;
-- Lists of files, which are few among results.
CREATE INDEX runtime_artifacts_files     ON runtime_artifacts (seq) WHERE type = 'FILE';

-- Content of artifacts and parts of transcripts that are too large or not text enough for their
-- rows, in chunks of 1 MiB, while the object storage is away. What is not whole was never stored.
CREATE TABLE contents (
  id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key    text    NOT NULL,
  size   bigint  NOT NULL,
  put_at bigint  NOT NULL,
  whole  boolean NOT NULL DEFAULT false
);
-- Content by its key.
CREATE UNIQUE INDEX contents_key ON contents (key) WHERE whole;
CREATE TABLE content_chunks (
  content_id bigint  NOT NULL REFERENCES contents ON DELETE CASCADE,
  n          integer NOT NULL,
  data       bytea   NOT NULL,
  PRIMARY KEY (content_id, n)
);
-- Without compression: most of it is compressed already.
ALTER TABLE content_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- A result's output is its artifact's content: it is kept once.
CREATE TABLE llm_results (
  task_id       uuid   NOT NULL,
  epoch         bigint NOT NULL CHECK (epoch > 0),
  completed_at  bigint NOT NULL,
  id            uuid   NOT NULL,
  artifact_id   uuid   NOT NULL,
  worker_id     text   NOT NULL,
  status        text   NOT NULL CHECK (status IN ('success','error')),
  error_class   text,
  metrics       jsonb  NOT NULL,
  body_hash     text   NOT NULL,
  error_message text,
  PRIMARY KEY (task_id, epoch)
);

-- task is llm_tasks.seq: half the size of the id in the table that grows most.
-- data is JSON kept as text: what a worker sends may be nested deeper than the
-- server's own parser goes, and must come back as it was.
CREATE TABLE task_events (
  task       bigint NOT NULL,
  seq        bigint NOT NULL CHECK (seq > 0),
  at         bigint NOT NULL,
  epoch      bigint NOT NULL,
  worker_seq bigint,
  type       text   NOT NULL,
  data       text   NOT NULL,
  PRIMARY KEY (task, seq)
);
-- An event that a worker sends again is stored once.
CREATE UNIQUE INDEX task_events_worker ON task_events (task, epoch, worker_seq) WHERE worker_seq IS NOT NULL;

-- Up to which event a task's stream lies in transcripts, and whether it has ended since.
CREATE TABLE run_transcripts (
  task bigint  PRIMARY KEY,
  upto bigint  NOT NULL DEFAULT 0,
  due  boolean NOT NULL
);
-- Which transcripts are to be written.
CREATE INDEX run_transcripts_due ON run_transcripts (task) WHERE due;

-- What the tasks of a context have in common, kept by the transactions that change tasks. seq
-- is the number of its newest task, by which contexts are listed.
CREATE TABLE contexts (
  seq          bigint NOT NULL,
  created_at   bigint NOT NULL,
  last_used_at bigint NOT NULL,
  updated_at   bigint NOT NULL,
  tasks        bigint NOT NULL,
  unfinished   bigint NOT NULL,
  tokens       bigint NOT NULL DEFAULT 0,
  cost_nano    bigint NOT NULL DEFAULT 0,
  pinned       boolean NOT NULL DEFAULT false,
  id           text   COLLATE "C" PRIMARY KEY,
  worker_id    text   COLLATE "C",
  name         text   COLLATE "C" NOT NULL DEFAULT '',
  folded       text   COLLATE "C" NOT NULL DEFAULT '' -- the name in lower case, to be searched
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- Lists, and retention.
CREATE INDEX contexts_seq ON contexts (seq);
CREATE INDEX contexts_pinned ON contexts (seq) WHERE pinned;

-- The transcripts and working folders of contexts: where their parts lie in the blob store.
-- folder is the place of a transcript's parts there.
CREATE TABLE transcripts (
  updated_at     bigint NOT NULL,
  size           bigint NOT NULL,
  workspace_size bigint NOT NULL DEFAULT 0,
  context_id     text   COLLATE "C" PRIMARY KEY,
  folder         text   COLLATE "C" NOT NULL UNIQUE,
  session_id     text   NOT NULL,
  sha256         text   NOT NULL,
  parts          text   NOT NULL,
  workspace      text   NOT NULL DEFAULT ''
);
-- Transcripts of which a part lies in a server's folder or, put there while the object storage
-- was away, in the database: with object storage, those that are to be moved.
CREATE INDEX transcripts_local ON transcripts (context_id)
  WHERE position('"file:' in parts) + position('"file:' in workspace) + position('"database:' in parts) + position('"database:' in workspace) > 0;

-- Contexts that were forgotten, for workers to forget them too.
CREATE TABLE forgotten_contexts (
  seq        bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at         bigint NOT NULL,
  context_id text   NOT NULL
);

-- Content in the blob store whose artifact was removed and that is to be deleted.
CREATE TABLE removed_contents (
  seq        bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  removed_at bigint NOT NULL,
  url        text   NOT NULL
);

CREATE TABLE audit_logs (
  seq         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  timestamp   bigint NOT NULL,
  id          uuid   NOT NULL,
  action      text   COLLATE "C" NOT NULL,
  entity_type text   NOT NULL,
  entity_id   text   COLLATE "C" NOT NULL,
  actor       text   NOT NULL,
  detail      text   NOT NULL,
  data        json   NOT NULL DEFAULT 'null',
  key_id      text   NOT NULL DEFAULT '',
  address     text   NOT NULL DEFAULT ''
);
-- Lists by what an entry is about, and by action. What every task goes through is found soon
-- enough without an index.
CREATE INDEX audit_logs_entity ON audit_logs (entity_id, seq);
CREATE INDEX audit_logs_action ON audit_logs (action, seq)
  WHERE action NOT IN ('task_created','task_leased','task_started','task_completed');

-- The audit's chain: each entry's hash covers the hash before it. Where retention has removed an
-- entry and the next one stays, its hash stays, with the time of the removal.
CREATE TABLE audit_chain (
  seq        bigint PRIMARY KEY,
  removed_at bigint,
  hash       bytea  NOT NULL CHECK (octet_length(hash) = 32)
);
-- The last entry that is chained.
CREATE TABLE audit_head (
  one  boolean PRIMARY KEY CHECK (one),
  seq  bigint  NOT NULL,
  hash bytea   NOT NULL CHECK (octet_length(hash) = 32)
) WITH (fillfactor = 10);
INSERT INTO audit_head (one, seq, hash) VALUES (true, 0, decode(repeat('00', 32), 'hex'));
-- The last entry in an exported file, and the last one of the file being written. branch is how
-- often the database was found to be older than the files, because a backup was restored.
CREATE TABLE audit_export (
  one      boolean PRIMARY KEY CHECK (one),
  exported bigint  NOT NULL,
  hash     text    NOT NULL,
  planned  bigint  NOT NULL,
  branch   integer NOT NULL DEFAULT 0
);
INSERT INTO audit_export (one, exported, hash, planned) VALUES (true, 0, '', 0);

CREATE TABLE runtime_settings (
  key        text   COLLATE "C" PRIMARY KEY,
  value      text   NOT NULL,
  updated_at bigint NOT NULL
);

CREATE TABLE users (
  id         text   PRIMARY KEY,
  username   text   NOT NULL UNIQUE,
  password   text   NOT NULL,
  role       text   NOT NULL,
  created_at bigint NOT NULL
);

-- Keys created with `bloom keys`: the key itself is stored nowhere, digest is its SHA-256 in hex.
CREATE TABLE schedules (
  name       text   COLLATE "C" PRIMARY KEY,
  spec       text   NOT NULL,
  created_at bigint NOT NULL,
  created_by text   NOT NULL,
  next_at    bigint,
  recent     text   NOT NULL
);
CREATE INDEX schedules_next ON schedules (next_at) WHERE next_at IS NOT NULL;

-- Requests to people. One is known by its task, the call and its input.
CREATE TABLE approvals (
  seq          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  id           uuid   NOT NULL UNIQUE,
  task_id      uuid   NOT NULL,
  context_id   text   COLLATE "C" NOT NULL,
  worker_id    text   COLLATE "C" NOT NULL,
  kind         text   NOT NULL,
  tool         text   NOT NULL,
  tool_use_id  text   NOT NULL,
  input        text   NOT NULL,
  input_sha256 text   NOT NULL,
  readable     text   NOT NULL,
  status       text   COLLATE "C" NOT NULL CHECK (status IN ('pending','allowed','denied','expired','cancelled')),
  asked_at     bigint NOT NULL,
  expires_at   bigint NOT NULL,
  decided_at   bigint,
  decided_by   text,
  message      text   NOT NULL DEFAULT '',
  answers      text   NOT NULL DEFAULT 'null',
  used_by      text   NOT NULL DEFAULT ''
);
-- Lists of what waits, and which expires next.
CREATE INDEX approvals_pending ON approvals (status, seq) WHERE status = 'pending';
-- A task's requests, to be listed and removed with it.
CREATE INDEX approvals_task    ON approvals (task_id, seq);

CREATE TABLE api_keys (
  seq          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  id           text   COLLATE "C" NOT NULL UNIQUE,
  name         text   NOT NULL,
  role         text   NOT NULL CHECK (role IN ('admin','client','worker','approver','viewer')),
  worker_id    text,
  digest       text   NOT NULL CHECK (length(digest) = 64),
  created_at   bigint NOT NULL,
  created_by   text   NOT NULL,
  expires_at   bigint,
  last_used_at bigint,
  revoked_at   bigint,
  CHECK (worker_id IS NULL OR role = 'worker')
);

-- Sign-ins of browsers. The cookie is sealed with the key in the data directory; turn tells its
-- newest form from older ones.
CREATE TABLE sessions (
  seq          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  id           text   COLLATE "C" NOT NULL UNIQUE,
  name         text   NOT NULL,
  role         text   NOT NULL CHECK (role IN ('admin','client','worker','approver','viewer')),
  key_id       text,
  created_at   bigint NOT NULL,
  last_used_at bigint NOT NULL,
  expires_at   bigint NOT NULL,
  address      text   NOT NULL,
  user_agent   text   NOT NULL,
  turn         bigint NOT NULL,
  turned_at    bigint NOT NULL
);

-- What stats shows, kept by deltas so that nobody ever counts tasks. Each
-- connection that writes has a slot, so that they do not wait for each other; the
-- truth is the sum. A page has room for the versions of its few rows.
CREATE TABLE counters (
  slot      integer PRIMARY KEY,
  queued    bigint NOT NULL DEFAULT 0,
  leased    bigint NOT NULL DEFAULT 0,
  running   bigint NOT NULL DEFAULT 0,
  completed bigint NOT NULL DEFAULT 0,
  failed    bigint NOT NULL DEFAULT 0,
  dead      bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  leases    bigint NOT NULL DEFAULT 0,
  active    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO counters (slot) SELECT generate_series(0, 63);

-- What happened to tasks by the minute, later by the hour, kept by the transactions that change
-- them; and samples of the queue, in slot -1. A transaction writes the slot that it holds of the
-- counters, so that no two wait for each other; the truth is the sum.
CREATE TABLE task_series (
  at         bigint  NOT NULL,
  slot       integer NOT NULL DEFAULT 0,
  created    bigint  NOT NULL DEFAULT 0,
  started    bigint  NOT NULL DEFAULT 0,
  completed  bigint  NOT NULL DEFAULT 0,
  failed     bigint  NOT NULL DEFAULT 0,
  dead       bigint  NOT NULL DEFAULT 0,
  cancelled  bigint  NOT NULL DEFAULT 0,
  tokens     bigint  NOT NULL DEFAULT 0,
  tokens_in  bigint  NOT NULL DEFAULT 0,
  tokens_out bigint  NOT NULL DEFAULT 0,
  cost       bigint  NOT NULL DEFAULT 0,
  queued     bigint,
  running    bigint,
  wait       bigint,
  PRIMARY KEY (at, slot)
) WITH (fillfactor = 50);

-- The index of the words of tasks.
CREATE TABLE task_search (
  task  bigint   PRIMARY KEY,
  words tsvector NOT NULL
);
-- Searches.
CREATE INDEX task_search_words ON task_search USING gin (words);
-- Tasks whose texts were changed, a row for each transaction, in the order in which they became
-- visible.
CREATE TABLE search_queue (
  id    bigint   GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  tasks bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- Tasks whose output could not be read.
CREATE TABLE search_retries (
  task  bigint PRIMARY KEY,
  due   bigint NOT NULL,
  tries bigint NOT NULL
);
-- Which of them to try again.
CREATE INDEX search_retries_due ON search_retries (due);
-- Tasks numbered below are not in the index yet, because they were imported: they enter it while
-- the servers run, the newest first.
CREATE TABLE search_fill (
  one   boolean PRIMARY KEY CHECK (one),
  below bigint  NOT NULL
);
INSERT INTO search_fill (one, below) VALUES (true, 0);
