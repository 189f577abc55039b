PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-11-22 01:38:26');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-11-22 01:38:26');
INSERT INTO goose_db_version VALUES(3,2,1,'2026-11-22 01:38:26');
INSERT INTO goose_db_version VALUES(4,3,1,'2026-11-22 01:38:26');
INSERT INTO goose_db_version VALUES(5,4,1,'2026-11-22 01:38:26');
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
  prompt            TEXT    NOT NULL, last_event INTEGER NOT NULL DEFAULT 0 CHECK (last_event >= 0),
  CHECK ((status = 'queued') = (gate IS NOT NULL)),
  CHECK (status <> 'queued' OR (lease_id IS NULL AND worker_id IS NULL)),
  CHECK (status NOT IN ('leased','running','completed','dead') OR (lease_id IS NOT NULL AND worker_id IS NOT NULL))
);
INSERT INTO llm_tasks VALUES(1,'01a200e7-967a-7d10-b044-9828b2dff718','dead',NULL,1772000061000,'019c936e-3800-78fa-8c7e-4be3e1c0fdd4','silent',1,1,1772000000000,'worker_lost',0,1,0,0,'',NULL,0,'dead','writer',1772000000000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: dead',0);
INSERT INTO llm_tasks VALUES(2,'01a200e7-9681-7c8e-abbf-53a84a906c1a','queued','open',1772000122000,NULL,NULL,1,2,1772000122000,'worker_lost',0,1,0,0,'',NULL,0,'expired','writer',1772000000000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: expired',0);
INSERT INTO llm_tasks VALUES(3,'01a200e7-9695-79a3-8ad5-debc44555cce','completed',NULL,1772000122000,'019c9370-1490-7a46-a5da-964253ecccff','w',1,2,1772000122000,NULL,0,1,0,0,'',NULL,0,'completed','writer',1772000122000,'text',120,0,'[]','client','once','0123456789abcdef0123456789abcdef','[]','do: completed',0);
INSERT INTO llm_tasks VALUES(4,'01a200e7-96ba-7d52-a7de-200d973234fc','completed',NULL,1772000122000,'019c9370-1490-7d08-9850-a61130d48a8c','w',1,2,1772000122000,NULL,0,1,0,0,'',NULL,0,'content elsewhere','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: content elsewhere',0);
INSERT INTO llm_tasks VALUES(5,'01a200e7-96c0-7204-9fb2-89991303d2ee','failed',NULL,1772000122000,'019c9370-1490-7e4e-9de1-e16bc18c287b','w',1,2,1772000122000,'crashed',0,1,0,0,'',NULL,0,'failed','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: failed',0);
INSERT INTO llm_tasks VALUES(6,'01a200e7-96e2-75bf-8680-0709adfa8bef','queued','delayed',1772000122000,NULL,NULL,1,2,1772000127000,'crashed',0,1,0,0,'',NULL,0,'retried','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: retried',0);
INSERT INTO llm_tasks VALUES(7,'01a200e7-96e6-7d43-a977-597c4c536966','cancelled',NULL,1772000122000,NULL,NULL,0,2,1772000122000,'cancelled',0,0,0,0,'',NULL,0,'cancelled','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: cancelled',0);
INSERT INTO llm_tasks VALUES(8,'01a200e7-96ec-7c22-a4e1-413e3aa80eda','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,1,0,0,'','w',1772000124000,'requeued','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: requeued',0);
INSERT INTO llm_tasks VALUES(9,'01a200e7-96f2-7345-8f92-56c5e13024fd','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,1,0,0,'',NULL,0,'given back','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: given back',0);
INSERT INTO llm_tasks VALUES(10,'01a200e7-96f3-7963-b2f8-67ce895b6222','leased',NULL,1772000122000,'019c9370-1490-79cd-9a83-44d826b8310e','w',1,2,1772000122000,NULL,0,1,0,0,'',NULL,0,'leased','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: leased',0);
INSERT INTO llm_tasks VALUES(11,'01a200e7-96f4-75cb-9e5d-e8ef15f87542','running',NULL,1772000122000,'019c9370-1490-7c3b-b88e-a47c24b95765','w',1,2,1772000122000,NULL,0,1,0,0,'',NULL,0,'running','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: running',0);
INSERT INTO llm_tasks VALUES(12,'01a200e7-96f5-78ed-9dd2-f210f570b8e5','running',NULL,1772000122000,'019c9370-1490-795b-bed2-395e917e8d51','w',1,2,1772000122000,NULL,1,1,0,0,'',NULL,0,'called off','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: called off',0);
INSERT INTO llm_tasks VALUES(13,'01a200e7-96f6-7e0c-bed0-8bb0d4f6a346','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,0,0,'',NULL,0,'open','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: open',0);
INSERT INTO llm_tasks VALUES(14,'01a200e7-96f7-7404-9a33-32bce52a3ee4','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,0,5,'["eu","gpu"]',NULL,0,'labelled','writer',1772000122000,'text',120,0,'["gpu","eu"]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: labelled',0);
INSERT INTO llm_tasks VALUES(15,'01a200e7-96f7-7945-8f70-b81e6ec18e38','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,0,0,'','w',1772000124000,'completed','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: completed',0);
INSERT INTO llm_tasks VALUES(16,'01a200e7-96f7-7ec1-91c8-b215a8482a8d','queued','delayed',1772000122000,NULL,NULL,0,2,1772003722000,NULL,0,0,0,0,'',NULL,0,'delayed','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','do: delayed',0);
INSERT INTO llm_tasks VALUES(17,'01a200e7-96f8-7484-bb61-c787f5efaa60','queued','open',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,1,0,'',NULL,0,'in order','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','number 0',0);
INSERT INTO llm_tasks VALUES(18,'01a200e7-96f8-7c46-89f2-3f23d36e4e60','queued','ordered',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,1,0,'',NULL,0,'in order','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','number 1',0);
INSERT INTO llm_tasks VALUES(19,'01a200e7-96f9-7256-990c-590650fe4464','queued','ordered',1772000122000,NULL,NULL,0,2,1772000122000,NULL,0,0,1,0,'',NULL,0,'in order','writer',1772000122000,'text',120,0,'[]',NULL,NULL,'0123456789abcdef0123456789abcdef','[]','number 2',0);
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
INSERT INTO leases VALUES(1,'019c936e-3800-78fa-8c7e-4be3e1c0fdd4','01a200e7-967a-7d10-b044-9828b2dff718','silent',1,'expired',1772000000000,1772000060000,60,1772000000000,'dead');
INSERT INTO leases VALUES(2,'019c936f-2648-7cfd-8fff-4163853de5b5','01a200e7-9681-7c8e-abbf-53a84a906c1a','silent',1,'expired',1772000061000,1772000121000,60,1772000061000,'expired');
INSERT INTO leases VALUES(3,'019c9370-1490-7a46-a5da-964253ecccff','01a200e7-9695-79a3-8ad5-debc44555cce','w',1,'released',1772000122000,1772000182000,60,1772000122000,'completed');
INSERT INTO leases VALUES(4,'019c9370-1490-7d08-9850-a61130d48a8c','01a200e7-96ba-7d52-a7de-200d973234fc','w',1,'released',1772000122000,1772000182000,60,1772000122000,'content elsewhere');
INSERT INTO leases VALUES(5,'019c9370-1490-7e4e-9de1-e16bc18c287b','01a200e7-96c0-7204-9fb2-89991303d2ee','w',1,'released',1772000122000,1772000182000,60,1772000122000,'failed');
INSERT INTO leases VALUES(6,'019c9370-1490-7a7b-a17e-c13072068722','01a200e7-96e2-75bf-8680-0709adfa8bef','w',1,'released',1772000122000,1772000182000,60,1772000122000,'retried');
INSERT INTO leases VALUES(7,'019c9370-1490-7683-b34a-a2624944ce69','01a200e7-96ec-7c22-a4e1-413e3aa80eda','w',1,'released',1772000122000,1772000182000,60,1772000122000,'requeued');
INSERT INTO leases VALUES(8,'019c9370-1490-7ffc-a235-22d94e1a37c4','01a200e7-96f2-7345-8f92-56c5e13024fd','removed',1,'released',1772000122000,1772000182000,60,1772000122000,'given back');
INSERT INTO leases VALUES(9,'019c9370-1490-79cd-9a83-44d826b8310e','01a200e7-96f3-7963-b2f8-67ce895b6222','w',1,'active',1772000122000,1772000182000,60,1772000122000,'leased');
INSERT INTO leases VALUES(10,'019c9370-1490-7c3b-b88e-a47c24b95765','01a200e7-96f4-75cb-9e5d-e8ef15f87542','w',1,'active',1772000122000,1772000182000,60,1772000122000,'running');
INSERT INTO leases VALUES(11,'019c9370-1490-795b-bed2-395e917e8d51','01a200e7-96f5-78ed-9dd2-f210f570b8e5','w',1,'active',1772000122000,1772000182000,60,1772000122000,'called off');
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
, followed_drain INTEGER NOT NULL DEFAULT 0 CHECK (followed_drain IN (0, 1)), followed_order INTEGER NOT NULL DEFAULT 0, posted_at INTEGER NOT NULL DEFAULT 0, told_order INTEGER NOT NULL DEFAULT 0);
INSERT INTO workers VALUES('w','w','','online',1,8,'["gpu","eu"]',1772000122000,'[]',0,'',1772000000000,'','','','w-1',1772000122000,0,0,0,0,0,0);
INSERT INTO workers VALUES('drained','drained','','online',1,2,'[]',1772000122000,'[]',0,'',1772000000000,'','','','drained-1',1772000122000,1,0,1,3,0,0);
INSERT INTO workers VALUES('removed','removed','','offline',1,2,'[]',1772000122000,'[]',0,'',1772000000000,'','','','',0,0,1,0,0,0,0);
INSERT INTO workers VALUES('silent','silent','','offline',1,1,'[]',1772000000000,'[]',0,'',1772000000000,'','','','silent-1',1772000000000,0,0,0,0,0,0);
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
INSERT INTO runtime_artifacts VALUES(1,'01a200e7-96b4-70ad-b54b-b11d77c3cee4','01a200e7-9695-79a3-8ad5-debc44555cce',NULL,'LLM_RESULT',1772000122000,1,NULL,'[]','[]',54,'s','text/plain','The wind turned at noon and the gulls came in with it.');
INSERT INTO runtime_artifacts VALUES(2,'01a200e7-96bd-7b55-bb76-bc67484a734b','01a200e7-96ba-7d52-a7de-200d973234fc',NULL,'LLM_RESULT',1772000122000,1,'file:///artifacts/01a200e7-96ba-7d52-a7de-200d973234fc','[]','[]',1048576,'s','text/plain',NULL);
INSERT INTO runtime_artifacts VALUES(3,'01a200e7-96e1-7983-ae52-6d978c4464c9','01a200e7-96c0-7204-9fb2-89991303d2ee',NULL,'LLM_RESULT',1772000122000,1,NULL,'[]','[]',0,'s','text/plain',NULL);
INSERT INTO runtime_artifacts VALUES(4,'01a200e7-96e6-74dc-a2c3-2fa17754263f','01a200e7-96e2-75bf-8680-0709adfa8bef',NULL,'LLM_RESULT',1772000122000,1,NULL,'[]','[]',0,'s','text/plain',NULL);
INSERT INTO runtime_artifacts VALUES(5,'01a200e7-96f1-7140-a776-200727efcc6c','01a200e7-96ec-7c22-a4e1-413e3aa80eda',NULL,'LLM_RESULT',1772000122000,1,NULL,'[]','[]',0,'s','text/plain',NULL);
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
INSERT INTO llm_results VALUES(1,'01a200e7-96b4-70b2-b163-747e996acfee','01a200e7-9695-79a3-8ad5-debc44555cce',1,'w','01a200e7-96b4-70ad-b54b-b11d77c3cee4','success',NULL,'{"duration_ms":0}',1772000122000,'h',NULL);
INSERT INTO llm_results VALUES(2,'01a200e7-96bd-7b58-a535-511cd2f1d361','01a200e7-96ba-7d52-a7de-200d973234fc',1,'w','01a200e7-96bd-7b55-bb76-bc67484a734b','success',NULL,'{"duration_ms":0}',1772000122000,'h',NULL);
INSERT INTO llm_results VALUES(3,'01a200e7-96e1-7988-87ae-3238bc0e7390','01a200e7-96c0-7204-9fb2-89991303d2ee',1,'w','01a200e7-96e1-7983-ae52-6d978c4464c9','error','crashed','{"duration_ms":0}',1772000122000,'h','it broke');
INSERT INTO llm_results VALUES(4,'01a200e7-96e6-74e0-86c6-5b408b2800eb','01a200e7-96e2-75bf-8680-0709adfa8bef',1,'w','01a200e7-96e6-74dc-a2c3-2fa17754263f','error','crashed','{"duration_ms":0}',1772000122000,'h','it broke');
INSERT INTO llm_results VALUES(5,'01a200e7-96f1-7142-8c36-d51dd856c659','01a200e7-96ec-7c22-a4e1-413e3aa80eda',1,'w','01a200e7-96f1-7140-a776-200727efcc6c','error','crashed','{"duration_ms":0}',1772000122000,'h','it broke');
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
INSERT INTO task_events VALUES(1,1,'created',1772000000000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(1,2,'leased',1772000000000,1,NULL,'{"worker_id":"silent","detail":"Leased to silent for 60 s (attempt 1 of 1)"}');
INSERT INTO task_events VALUES(1,3,'dead',1772000061000,1,NULL,'{"worker_id":"silent","detail":"Lease of silent expired on the last of 1 attempts","error_class":"worker_lost"}');
INSERT INTO task_events VALUES(2,1,'created',1772000000000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(2,2,'leased',1772000061000,1,NULL,'{"worker_id":"silent","detail":"Leased to silent for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(2,3,'expired',1772000122000,1,NULL,'{"worker_id":"silent","detail":"Lease of silent expired (attempt 1 of 2); back in the queue","error_class":"worker_lost"}');
INSERT INTO task_events VALUES(3,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(3,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(3,3,'started',1772000122000,1,NULL,'{"worker_id":"w","detail":"Started on w"}');
INSERT INTO task_events VALUES(3,4,'text',1772000122000,1,1,'{"text":"grüße"}');
INSERT INTO task_events VALUES(3,5,'log',1772000122000,1,2,'null');
INSERT INTO task_events VALUES(3,6,'completed',1772000122000,1,NULL,'{"worker_id":"w","detail":"Completed by w"}');
INSERT INTO task_events VALUES(4,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(4,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(4,3,'completed',1772000122000,1,NULL,'{"worker_id":"w","detail":"Completed by w"}');
INSERT INTO task_events VALUES(5,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(5,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(5,3,'failed',1772000122000,1,NULL,'{"worker_id":"w","detail":"Failed on w (crashed)","error_class":"crashed"}');
INSERT INTO task_events VALUES(6,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(6,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(6,3,'retried',1772000122000,1,NULL,'{"worker_id":"w","detail":"Attempt 1 of 2 failed (crashed); will be tried again","error_class":"crashed"}');
INSERT INTO task_events VALUES(7,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(7,2,'cancelled',1772000122000,0,NULL,'{"detail":"Cancelled while waiting","error_class":"cancelled"}');
INSERT INTO task_events VALUES(8,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(8,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(8,3,'failed',1772000122000,1,NULL,'{"worker_id":"w","detail":"Failed on w (crashed)","error_class":"crashed"}');
INSERT INTO task_events VALUES(8,4,'requeued',1772000122000,1,NULL,'{"detail":"Requeued by hand"}');
INSERT INTO task_events VALUES(9,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(9,2,'leased',1772000122000,1,NULL,'{"worker_id":"removed","detail":"Leased to removed for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(9,3,'released',1772000122000,1,NULL,'{"worker_id":"removed","detail":"Given back by removed: the worker was removed"}');
INSERT INTO task_events VALUES(10,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(10,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(11,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(11,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(11,3,'started',1772000122000,1,NULL,'{"worker_id":"w","detail":"Started on w"}');
INSERT INTO task_events VALUES(11,4,'text',1772000122000,1,1,'null');
INSERT INTO task_events VALUES(12,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(12,2,'leased',1772000122000,1,NULL,'{"worker_id":"w","detail":"Leased to w for 60 s (attempt 1 of 2)"}');
INSERT INTO task_events VALUES(12,3,'started',1772000122000,1,NULL,'{"worker_id":"w","detail":"Started on w"}');
INSERT INTO task_events VALUES(12,4,'cancel_requested',1772000122000,1,NULL,'{"detail":"Cancel requested; its worker is told to stop"}');
INSERT INTO task_events VALUES(13,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(14,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(15,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(16,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(17,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(18,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
INSERT INTO task_events VALUES(19,1,'created',1772000122000,0,NULL,'{"detail":"Created for agent writer"}');
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
INSERT INTO audit_logs VALUES(1,'019c936e-3800-7e6b-aac4-bc0215d974c6',1772000000000,'worker_registered','worker','w','w','Registered','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(2,'019c936e-3800-7d5a-91c1-235523ab6498',1772000000000,'worker_registered','worker','drained','drained','Registered','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(3,'019c936e-3800-79e0-8835-4f5bde3067f8',1772000000000,'worker_registered','worker','removed','removed','Registered','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(4,'019c936e-3800-74be-a517-c173341dfd98',1772000000000,'worker_registered','worker','silent','silent','Registered','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(5,'019c936e-3800-7859-8515-be506f8c1d2c',1772000000000,'worker_drain','worker','drained','me','Ordered to take no more work','{"draining":true,"status":"online"}');
INSERT INTO audit_logs VALUES(6,'019c936e-3800-766e-8405-6fb8f9ce1428',1772000000000,'task_created','llm_task','01a200e7-967a-7d10-b044-9828b2dff718','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(7,'019c936e-3800-7a82-957e-b16913825571',1772000000000,'task_created','llm_task','01a200e7-9681-7c8e-abbf-53a84a906c1a','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(8,'019c936e-3800-77fd-99a7-f5586a965d46',1772000000000,'task_leased','llm_task','01a200e7-967a-7d10-b044-9828b2dff718','client','Leased to silent for 60 s (attempt 1 of 1)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c936e-3800-78fa-8c7e-4be3e1c0fdd4","worker_id":"silent"}');
INSERT INTO audit_logs VALUES(9,'019c936f-2648-7bb4-b5ad-8368fafdcd6e',1772000061000,'task_dead','llm_task','01a200e7-967a-7d10-b044-9828b2dff718','reaper','Lease of silent expired on the last of 1 attempts','{"status":"dead","epoch":1,"attempts":1,"lease_id":"019c936e-3800-78fa-8c7e-4be3e1c0fdd4","worker_id":"silent","error_class":"worker_lost"}');
INSERT INTO audit_logs VALUES(10,'019c936f-2648-7abd-a85e-31494e858702',1772000061000,'task_leased','llm_task','01a200e7-9681-7c8e-abbf-53a84a906c1a','client','Leased to silent for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c936f-2648-7cfd-8fff-4163853de5b5","worker_id":"silent"}');
INSERT INTO audit_logs VALUES(11,'019c9370-1490-7400-880e-245b1b55b124',1772000122000,'task_expired','llm_task','01a200e7-9681-7c8e-abbf-53a84a906c1a','reaper','Lease of silent expired (attempt 1 of 2); back in the queue','{"status":"queued","epoch":1,"attempts":1,"error_class":"worker_lost"}');
INSERT INTO audit_logs VALUES(12,'019c9370-1490-7141-8f31-d2c09ae8cb0d',1772000122000,'worker_offline','worker','drained','runtime','Nobody has heard of it for more than 1m0s','{"draining":true,"status":"offline"}');
INSERT INTO audit_logs VALUES(13,'019c9370-1490-7210-b143-abe8eaee6719',1772000122000,'worker_offline','worker','removed','runtime','Nobody has heard of it for more than 1m0s','{"draining":false,"status":"offline"}');
INSERT INTO audit_logs VALUES(14,'019c9370-1490-7e12-b0a7-6999ce09d76c',1772000122000,'worker_offline','worker','silent','runtime','Nobody has heard of it for more than 1m0s','{"draining":false,"status":"offline"}');
INSERT INTO audit_logs VALUES(15,'019c9370-1490-7cea-bf06-c30b4efd0bf1',1772000122000,'worker_offline','worker','w','runtime','Nobody has heard of it for more than 1m0s','{"draining":false,"status":"offline"}');
INSERT INTO audit_logs VALUES(16,'019c9370-1490-7b65-a31a-6d96b6f580fa',1772000122000,'worker_online','worker','w','w','Heard of again','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(17,'019c9370-1490-7692-8e8d-718ae1c2da6b',1772000122000,'worker_online','worker','removed','removed','Heard of again','{"draining":false,"status":"online"}');
INSERT INTO audit_logs VALUES(18,'019c9370-1490-7557-8ed6-cb1027f6afdc',1772000122000,'worker_online','worker','drained','drained','Heard of again','{"draining":true,"status":"online"}');
INSERT INTO audit_logs VALUES(19,'019c9370-1490-7daa-b7da-5f109f2f3b67',1772000122000,'task_created','llm_task','01a200e7-9695-79a3-8ad5-debc44555cce','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(20,'019c9370-1490-7dd0-983d-c6144a7fe3ee',1772000122000,'task_leased','llm_task','01a200e7-9695-79a3-8ad5-debc44555cce','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7a46-a5da-964253ecccff","worker_id":"w"}');
INSERT INTO audit_logs VALUES(21,'019c9370-1490-7fd8-b5e0-c39e93c08d1f',1772000122000,'task_started','llm_task','01a200e7-9695-79a3-8ad5-debc44555cce','w','Started on w','{"status":"running","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7a46-a5da-964253ecccff","worker_id":"w"}');
INSERT INTO audit_logs VALUES(22,'019c9370-1490-7792-a981-72dc39b739c3',1772000122000,'task_completed','llm_task','01a200e7-9695-79a3-8ad5-debc44555cce','bench','Completed by w','{"status":"completed","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7a46-a5da-964253ecccff","worker_id":"w"}');
INSERT INTO audit_logs VALUES(23,'019c9370-1490-7f3c-b527-177fc14d5043',1772000122000,'task_created','llm_task','01a200e7-96ba-7d52-a7de-200d973234fc','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(24,'019c9370-1490-777b-bd11-5efeff79a7cd',1772000122000,'task_leased','llm_task','01a200e7-96ba-7d52-a7de-200d973234fc','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7d08-9850-a61130d48a8c","worker_id":"w"}');
INSERT INTO audit_logs VALUES(25,'019c9370-1490-72e6-98c4-41c62fd7b745',1772000122000,'task_completed','llm_task','01a200e7-96ba-7d52-a7de-200d973234fc','bench','Completed by w','{"status":"completed","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7d08-9850-a61130d48a8c","worker_id":"w"}');
INSERT INTO audit_logs VALUES(26,'019c9370-1490-7461-a43b-31bddb5c5af8',1772000122000,'task_created','llm_task','01a200e7-96c0-7204-9fb2-89991303d2ee','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(27,'019c9370-1490-7de3-b33c-3c5842c393b8',1772000122000,'task_leased','llm_task','01a200e7-96c0-7204-9fb2-89991303d2ee','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7e4e-9de1-e16bc18c287b","worker_id":"w"}');
INSERT INTO audit_logs VALUES(28,'019c9370-1490-7832-b99e-99e582df934a',1772000122000,'task_completed','llm_task','01a200e7-96c0-7204-9fb2-89991303d2ee','bench','Failed on w (crashed)','{"status":"failed","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7e4e-9de1-e16bc18c287b","worker_id":"w","error_class":"crashed"}');
INSERT INTO audit_logs VALUES(29,'019c9370-1490-7bcc-a997-020065b4b69a',1772000122000,'task_created','llm_task','01a200e7-96e2-75bf-8680-0709adfa8bef','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(30,'019c9370-1490-7250-a42e-4b902bc46ad8',1772000122000,'task_leased','llm_task','01a200e7-96e2-75bf-8680-0709adfa8bef','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7a7b-a17e-c13072068722","worker_id":"w"}');
INSERT INTO audit_logs VALUES(31,'019c9370-1490-70e6-a710-7fc107ac27b2',1772000122000,'task_retried','llm_task','01a200e7-96e2-75bf-8680-0709adfa8bef','bench','Attempt 1 of 2 failed (crashed); will be tried again','{"status":"queued","epoch":1,"attempts":1,"error_class":"crashed"}');
INSERT INTO audit_logs VALUES(32,'019c9370-1490-7104-af34-a5f084988a10',1772000122000,'task_created','llm_task','01a200e7-96e6-7d43-a977-597c4c536966','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(33,'019c9370-1490-72ce-b3a8-fd1de6f9416d',1772000122000,'task_cancelled','llm_task','01a200e7-96e6-7d43-a977-597c4c536966','me','Cancelled while waiting','{"status":"cancelled","epoch":0,"attempts":0,"error_class":"cancelled"}');
INSERT INTO audit_logs VALUES(34,'019c9370-1490-7128-b8c8-0c2234a4676e',1772000122000,'task_created','llm_task','01a200e7-96ec-7c22-a4e1-413e3aa80eda','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(35,'019c9370-1490-7998-8eb5-0c59603acf05',1772000122000,'task_leased','llm_task','01a200e7-96ec-7c22-a4e1-413e3aa80eda','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7683-b34a-a2624944ce69","worker_id":"w"}');
INSERT INTO audit_logs VALUES(36,'019c9370-1490-70db-82fa-9b1fe7f4f90f',1772000122000,'task_completed','llm_task','01a200e7-96ec-7c22-a4e1-413e3aa80eda','bench','Failed on w (crashed)','{"status":"failed","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7683-b34a-a2624944ce69","worker_id":"w","error_class":"crashed"}');
INSERT INTO audit_logs VALUES(37,'019c9370-1490-72c4-b185-dd32895d956c',1772000122000,'task_requeued','llm_task','01a200e7-96ec-7c22-a4e1-413e3aa80eda','me','Requeued by hand','{"status":"queued","epoch":1,"attempts":0}');
INSERT INTO audit_logs VALUES(38,'019c9370-1490-777a-a9b4-7b6b7b45bfd1',1772000122000,'task_created','llm_task','01a200e7-96f2-7345-8f92-56c5e13024fd','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(39,'019c9370-1490-764a-94da-9417b1fbbfc0',1772000122000,'task_leased','llm_task','01a200e7-96f2-7345-8f92-56c5e13024fd','client','Leased to removed for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7ffc-a235-22d94e1a37c4","worker_id":"removed"}');
INSERT INTO audit_logs VALUES(40,'019c9370-1490-7287-8174-41448709c5b2',1772000122000,'task_released','llm_task','01a200e7-96f2-7345-8f92-56c5e13024fd','me','Given back by removed: the worker was removed','{"status":"queued","epoch":1,"attempts":0}');
INSERT INTO audit_logs VALUES(41,'019c9370-1490-75d5-893a-1cf16e37692a',1772000122000,'worker_removed','worker','removed','me','Removed','{"draining":false,"status":"offline"}');
INSERT INTO audit_logs VALUES(42,'019c9370-1490-7a0d-b7dd-af531734de05',1772000122000,'task_created','llm_task','01a200e7-96f3-7963-b2f8-67ce895b6222','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(43,'019c9370-1490-75cb-97ba-933f5ecc979f',1772000122000,'task_leased','llm_task','01a200e7-96f3-7963-b2f8-67ce895b6222','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-79cd-9a83-44d826b8310e","worker_id":"w"}');
INSERT INTO audit_logs VALUES(44,'019c9370-1490-7086-a5e3-cabad85f82be',1772000122000,'task_created','llm_task','01a200e7-96f4-75cb-9e5d-e8ef15f87542','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(45,'019c9370-1490-7794-9cf7-f4cfbcace176',1772000122000,'task_leased','llm_task','01a200e7-96f4-75cb-9e5d-e8ef15f87542','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7c3b-b88e-a47c24b95765","worker_id":"w"}');
INSERT INTO audit_logs VALUES(46,'019c9370-1490-7f26-a8a9-4ba08721455a',1772000122000,'task_started','llm_task','01a200e7-96f4-75cb-9e5d-e8ef15f87542','w','Started on w','{"status":"running","epoch":1,"attempts":1,"lease_id":"019c9370-1490-7c3b-b88e-a47c24b95765","worker_id":"w"}');
INSERT INTO audit_logs VALUES(47,'019c9370-1490-7b46-933d-07cb75e90017',1772000122000,'task_created','llm_task','01a200e7-96f5-78ed-9dd2-f210f570b8e5','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(48,'019c9370-1490-7441-b430-4874a85ca6b2',1772000122000,'task_leased','llm_task','01a200e7-96f5-78ed-9dd2-f210f570b8e5','client','Leased to w for 60 s (attempt 1 of 2)','{"status":"leased","epoch":1,"attempts":1,"lease_id":"019c9370-1490-795b-bed2-395e917e8d51","worker_id":"w"}');
INSERT INTO audit_logs VALUES(49,'019c9370-1490-7963-9b03-a7046eb61748',1772000122000,'task_started','llm_task','01a200e7-96f5-78ed-9dd2-f210f570b8e5','w','Started on w','{"status":"running","epoch":1,"attempts":1,"lease_id":"019c9370-1490-795b-bed2-395e917e8d51","worker_id":"w"}');
INSERT INTO audit_logs VALUES(50,'019c9370-1490-73cf-a6e5-4210066bb71a',1772000122000,'task_cancelled','llm_task','01a200e7-96f5-78ed-9dd2-f210f570b8e5','me','Cancel requested; its worker is told to stop','{"status":"running","epoch":1,"attempts":1,"cancel_requested":true,"lease_id":"019c9370-1490-795b-bed2-395e917e8d51","worker_id":"w"}');
INSERT INTO audit_logs VALUES(51,'019c9370-1490-7a84-9d29-27a2b2dbd8da',1772000122000,'task_created','llm_task','01a200e7-96f6-7e0c-bed0-8bb0d4f6a346','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(52,'019c9370-1490-7d44-aafa-a2c5a6111d3e',1772000122000,'task_created','llm_task','01a200e7-96f7-7404-9a33-32bce52a3ee4','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(53,'019c9370-1490-7590-bdda-1f9c761c6aa9',1772000122000,'task_created','llm_task','01a200e7-96f7-7945-8f70-b81e6ec18e38','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(54,'019c9370-1490-77a3-9580-f346c2e073a0',1772000122000,'task_created','llm_task','01a200e7-96f7-7ec1-91c8-b215a8482a8d','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(55,'019c9370-1490-7d78-895d-6267408a2060',1772000122000,'task_created','llm_task','01a200e7-96f8-7484-bb61-c787f5efaa60','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(56,'019c9370-1490-78d5-905b-572058cda100',1772000122000,'task_created','llm_task','01a200e7-96f8-7c46-89f2-3f23d36e4e60','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(57,'019c9370-1490-71a0-880f-bd083457d84d',1772000122000,'task_created','llm_task','01a200e7-96f9-7256-990c-590650fe4464','bench','Created for agent writer','{"status":"queued","epoch":0,"attempts":0}');
INSERT INTO audit_logs VALUES(58,'019c9370-1490-7147-b67d-166924cfeb40',1772000122000,'config_updated','config','runtime','me','','null');
CREATE TABLE runtime_settings (
  key        TEXT    NOT NULL PRIMARY KEY,
  value      TEXT    NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO runtime_settings VALUES('membridge_url','http://127.0.0.1:8000',1772000122000);
CREATE TABLE users (
  id         TEXT    NOT NULL PRIMARY KEY,
  username   TEXT    NOT NULL UNIQUE,
  password   TEXT    NOT NULL,
  role       TEXT    NOT NULL,
  created_at INTEGER NOT NULL
);
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
INSERT INTO counters VALUES(1,11,1,2,2,1,1,1,11,3);
CREATE TABLE removed_contents (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  url        TEXT    NOT NULL,
  removed_at INTEGER NOT NULL
);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',5);
CREATE INDEX llm_tasks_queue    ON llm_tasks (label_key, priority DESC, seq) WHERE status = 'queued' AND gate = 'open';
CREATE INDEX llm_tasks_delayed  ON llm_tasks (run_at)           WHERE status = 'queued' AND gate = 'delayed';
CREATE INDEX llm_tasks_ordered  ON llm_tasks (context_id, seq)  WHERE ordered = 1 AND status IN ('queued','leased','running');
CREATE INDEX llm_tasks_prefers  ON llm_tasks (preferred_worker, preferred_until) WHERE status = 'queued' AND preferred_worker IS NOT NULL;
CREATE INDEX llm_tasks_status   ON llm_tasks (status, seq)      WHERE status IN ('queued','failed','dead','cancelled');
CREATE INDEX llm_tasks_context  ON llm_tasks (context_id, seq);
CREATE INDEX llm_tasks_agent    ON llm_tasks (agent_slug, seq);
CREATE INDEX llm_tasks_worker   ON llm_tasks (worker_id, seq)   WHERE worker_id IS NOT NULL;
CREATE UNIQUE INDEX llm_tasks_idempotency ON llm_tasks (idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX leases_one_active ON leases (task_id) WHERE status = 'active';
CREATE INDEX leases_held    ON leases (worker_id, context_id) WHERE status = 'active';
CREATE INDEX leases_status  ON leases (status, seq) WHERE status IN ('expired','failed');
CREATE INDEX leases_context ON leases (context_id, seq);
CREATE INDEX runtime_artifacts_task ON runtime_artifacts (task_id, seq);
CREATE UNIQUE INDEX task_events_worker ON task_events (task, epoch, worker_seq) WHERE worker_seq IS NOT NULL;
CREATE INDEX audit_logs_entity ON audit_logs (entity_id, seq);
CREATE INDEX audit_logs_action ON audit_logs (action, seq)
  WHERE action NOT IN ('task_created','task_leased','task_started','task_completed');
CREATE INDEX leases_ended ON leases (task_id) WHERE status <> 'active';
COMMIT;
