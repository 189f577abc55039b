-- The working folders of contexts that move with them: which tasks have one, and where
-- the snapshot's parts lie in the blob store.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE transcripts ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE transcripts ADD COLUMN workspace_size INTEGER NOT NULL DEFAULT 0;
