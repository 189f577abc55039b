-- The working folders of contexts that move with them: which tasks have one, and where
-- the snapshot's parts lie in the blob store.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN workspace text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE transcripts ADD COLUMN workspace text NOT NULL DEFAULT '';
ALTER TABLE transcripts ADD COLUMN workspace_size bigint NOT NULL DEFAULT 0;
