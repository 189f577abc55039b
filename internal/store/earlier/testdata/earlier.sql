-- The earlier Node implementation's tables, as its schema (Drizzle's pgTable)
-- made them: ids as text, times as Unix milliseconds, structures as JSONB.
CREATE TABLE users (
  id varchar PRIMARY KEY DEFAULT gen_random_uuid(), username text NOT NULL UNIQUE, password text NOT NULL);
CREATE TABLE llm_tasks (
  id varchar PRIMARY KEY, context_id text NOT NULL, agent_slug text NOT NULL, prompt text NOT NULL,
  context_hints jsonb NOT NULL DEFAULT '[]', policy jsonb NOT NULL DEFAULT '{"timeout_sec":120,"budget":0}',
  desired_format text NOT NULL DEFAULT 'text', status text NOT NULL DEFAULT 'queued',
  created_at bigint NOT NULL, updated_at bigint NOT NULL, lease_id varchar, worker_id varchar,
  attempts integer NOT NULL DEFAULT 0, max_attempts integer NOT NULL DEFAULT 3);
CREATE TABLE leases (
  id varchar PRIMARY KEY, task_id varchar NOT NULL, worker_id varchar NOT NULL, started_at bigint NOT NULL,
  expires_at bigint NOT NULL, ttl_seconds integer NOT NULL DEFAULT 300, status text NOT NULL DEFAULT 'active',
  last_heartbeat bigint NOT NULL, context_id text);
CREATE TABLE workers (
  id varchar PRIMARY KEY, node_id text NOT NULL, url text NOT NULL DEFAULT '', status text NOT NULL DEFAULT 'unknown',
  capabilities jsonb NOT NULL DEFAULT '{}', last_heartbeat bigint, ip_addrs jsonb NOT NULL DEFAULT '[]',
  obs_count integer NOT NULL DEFAULT 0, db_sha text NOT NULL DEFAULT '', registered_at bigint NOT NULL,
  active_leases integer NOT NULL DEFAULT 0, agent_version text, os_info text, install_method text);
CREATE TABLE runtime_artifacts (
  id varchar PRIMARY KEY, task_id varchar NOT NULL, job_id varchar, type text NOT NULL, created_at bigint NOT NULL,
  finalized boolean NOT NULL DEFAULT false, url text, entity_refs jsonb NOT NULL DEFAULT '[]',
  tags jsonb NOT NULL DEFAULT '[]', content text);
CREATE TABLE llm_results (
  id varchar PRIMARY KEY, task_id varchar NOT NULL, worker_id varchar NOT NULL, status text NOT NULL, output text,
  artifact_id varchar, error_message text, metrics jsonb NOT NULL DEFAULT '{}', completed_at bigint NOT NULL);
CREATE TABLE audit_logs (
  id varchar PRIMARY KEY, timestamp bigint NOT NULL, action text NOT NULL, entity_type text NOT NULL,
  entity_id text NOT NULL, actor text NOT NULL, detail text NOT NULL);
CREATE TABLE runtime_settings (key text PRIMARY KEY, value text NOT NULL);

INSERT INTO users VALUES ('u1', 'vokov', 'scrypt:hash');
INSERT INTO workers VALUES ('worker-01', 'node-a', 'http://10.0.0.7:9', 'online',
  '{"claude_cli":true,"max_concurrency":4,"labels":["production"]}', 1772042245043, '["10.0.0.7"]', 12, 'abc', 1772042000000, 1, '0.3.0', 'linux', 'manual');
INSERT INTO runtime_settings VALUES ('membridge_server_url', 'http://127.0.0.1:8000'), ('membridge_admin_key', 'a-secret-that-stays-there'), ('last_test', '1');
INSERT INTO llm_tasks VALUES
  ('3a0c9a5e-0000-4000-8000-000000000001', 'ctx-1', 'coder', 'Done in one go.', '["src/a.ts"]', '{"timeout_sec":60,"budget":1000}', 'json', 'completed', 1000, 2000, '3a0c9a5e-0000-4000-8000-0000000000a1', 'worker-01', 1, 3),
  ('3a0c9a5e-0000-4000-8000-000000000002', 'ctx-1', 'coder', 'Waits.', '[]', '{"timeout_sec":120,"budget":0}', 'text', 'queued', 1100, 1100, NULL, NULL, 0, 3),
  ('3a0c9a5e-0000-4000-8000-000000000003', 'ctx-2', 'coder', 'Under way.', '[]', '{"timeout_sec":120,"budget":0}', 'text', 'running', 1200, 1300, '3a0c9a5e-0000-4000-8000-0000000000a3', 'worker-01', 1, 3),
  ('3a0c9a5e-0000-4000-8000-000000000004', 'ctx-2', 'coder', 'Under way for the last time.', '[]', '{"timeout_sec":120,"budget":0}', 'text', 'leased', 1300, 1400, '3a0c9a5e-0000-4000-8000-0000000000a4', 'worker-01', 3, 3),
  ('3a0c9a5e-0000-4000-8000-000000000005', 'ctx-3', 'coder', 'Failed, requeued, failed again.', '[]', '{"timeout_sec":120,"budget":0}', 'text', 'failed', 1400, 1900, '3a0c9a5e-0000-4000-8000-0000000000a6', 'worker-01', 1, 3),
  ('3a0c9a5e-0000-4000-8000-000000000006', 'ctx-3', 'coder', 'Dead.', '[]', '{"timeout_sec":9999,"budget":0}', 'text', 'dead', 1500, 1950, NULL, NULL, 3, 3),
  ('3a0c9a5e-0000-4000-8000-000000000007', 'ctx-3', 'coder', 'Its output is in MinIO.', '[]', '{"timeout_sec":120,"budget":0}', 'text', 'completed', 1550, 1955, NULL, 'worker-01', 1, 3),
  ('not-a-uuid', 'ctx-3', 'coder', 'Completed without a trace.', '[]', '{}', 'text', 'completed', 1600, 1960, NULL, NULL, 0, 3);
INSERT INTO leases VALUES
  ('3a0c9a5e-0000-4000-8000-0000000000a1', '3a0c9a5e-0000-4000-8000-000000000001', 'worker-01', 1500, 301500, 300, 'released', 1900, 'ctx-1'),
  ('3a0c9a5e-0000-4000-8000-0000000000a3', '3a0c9a5e-0000-4000-8000-000000000003', 'worker-01', 1250, 301250, 300, 'active', 1290, 'ctx-2'),
  ('3a0c9a5e-0000-4000-8000-0000000000a4', '3a0c9a5e-0000-4000-8000-000000000004', 'worker-01', 1350, 301350, 300, 'active', 1390, 'ctx-2'),
  ('3a0c9a5e-0000-4000-8000-0000000000a5', '3a0c9a5e-0000-4000-8000-000000000005', 'worker-01', 1450, 301450, 300, 'released', 1500, 'ctx-3'),
  ('3a0c9a5e-0000-4000-8000-0000000000a6', '3a0c9a5e-0000-4000-8000-000000000005', 'worker-01', 1650, 301650, 300, 'released', 1800, 'ctx-3');
INSERT INTO runtime_artifacts VALUES
  ('3a0c9a5e-0000-4000-8000-0000000000b1', '3a0c9a5e-0000-4000-8000-000000000001', NULL, 'LLM_RESULT', 2000, true, NULL, '["e1"]', '["t"]', 'the output'),
  ('3a0c9a5e-0000-4000-8000-0000000000b5', '3a0c9a5e-0000-4000-8000-000000000005', NULL, 'LLM_RESULT', 1500, true, NULL, '[]', '[]', NULL),
  ('3a0c9a5e-0000-4000-8000-0000000000b6', '3a0c9a5e-0000-4000-8000-000000000005', NULL, 'LLM_RESULT', 1900, true, NULL, '[]', '[]', NULL),
  ('3a0c9a5e-0000-4000-8000-0000000000b7', '3a0c9a5e-0000-4000-8000-000000000007', NULL, 'LLM_RESULT', 1900, true, 'minio://bloom-artifacts/artifacts/b7', '[]', '[]', NULL),
  ('3a0c9a5e-0000-4000-8000-0000000000b8', '3a0c9a5e-0000-4000-8000-000000000007', 'job', 'REPORT', 1901, true, 'minio://bloom-artifacts/artifacts/b8', '["e2"]', '[]', NULL);
INSERT INTO llm_results VALUES
  ('3a0c9a5e-0000-4000-8000-0000000000c1', '3a0c9a5e-0000-4000-8000-000000000001', 'worker-01', 'success', 'the output', '3a0c9a5e-0000-4000-8000-0000000000b1', NULL, '{"duration_ms":500,"tokens_used":42}', 2000),
  ('3a0c9a5e-0000-4000-8000-0000000000c5', '3a0c9a5e-0000-4000-8000-000000000005', 'worker-01', 'error', NULL, '3a0c9a5e-0000-4000-8000-0000000000b5', 'first', '{"duration_ms":1}', 1500),
  ('3a0c9a5e-0000-4000-8000-0000000000c6', '3a0c9a5e-0000-4000-8000-000000000005', 'worker-01', 'error', NULL, '3a0c9a5e-0000-4000-8000-0000000000b6', 'second', '{"duration_ms":2}', 1900),
  ('3a0c9a5e-0000-4000-8000-0000000000c7', '3a0c9a5e-0000-4000-8000-000000000007', 'worker-01', 'success', 'kept in the result', '3a0c9a5e-0000-4000-8000-0000000000b7', NULL, '{"duration_ms":3}', 1955);
INSERT INTO audit_logs VALUES
  ('3a0c9a5e-0000-4000-8000-0000000000d1', 1000, 'task_created', 'llm_task', '3a0c9a5e-0000-4000-8000-000000000001', 'api', 'Task created'),
  ('3a0c9a5e-0000-4000-8000-0000000000d2', 1600, 'task_created', 'llm_task', 'not-a-uuid', 'api', 'Task created'),
  ('3a0c9a5e-0000-4000-8000-0000000000d3', 900, 'config_updated', 'config', 'runtime', 'system', 'Config updated');
