-- Only a queued task has a gate. Indexes of queued tasks that say no more than that have
-- nothing to do with a task on its way to its end.

-- +goose Up
DROP INDEX llm_tasks_queue;
DROP INDEX llm_tasks_delayed;
DROP INDEX llm_tasks_prefers;
DROP INDEX llm_tasks_created_by;
CREATE INDEX llm_tasks_queue      ON llm_tasks (label_key, priority DESC, seq) WHERE gate = 'open';
CREATE INDEX llm_tasks_delayed    ON llm_tasks (run_at)     WHERE gate = 'delayed';
CREATE INDEX llm_tasks_prefers    ON llm_tasks (preferred_worker, preferred_until) WHERE preferred_worker IS NOT NULL;
CREATE INDEX llm_tasks_created_by ON llm_tasks (created_by) WHERE gate IS NOT NULL;
