-- created_by is who created a task: with one key no more than so many may be queued.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN created_by text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX llm_tasks_created_by ON llm_tasks (created_by) WHERE status = 'queued';
