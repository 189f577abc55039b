-- Only a queued task has a gate. An index that mentions the status has the server write all
-- of a task's index entries again whenever the status changes. Who asks for no creator
-- must not walk along this one.

-- +goose Up
DROP INDEX llm_tasks_created_by;
CREATE INDEX llm_tasks_created_by ON llm_tasks (created_by) WHERE gate IS NOT NULL AND created_by IS NOT NULL;
