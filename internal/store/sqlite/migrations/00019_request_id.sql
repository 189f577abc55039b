-- request_id is the id of the request that created a task, which logs name.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN request_id TEXT;
