-- Artifacts of a run besides its output: files that the task asks for, and the
-- transcript of the run's events. A path is unique within an attempt.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN artifact_globs jsonb NOT NULL DEFAULT '[]';
ALTER TABLE runtime_artifacts ADD COLUMN epoch bigint;
ALTER TABLE runtime_artifacts ADD COLUMN path text COLLATE "C";
CREATE UNIQUE INDEX runtime_artifacts_path ON runtime_artifacts (task_id, epoch, path) WHERE path IS NOT NULL;

-- Up to which event a task's stream lies in transcripts, and whether it has ended since.
CREATE TABLE run_transcripts (
  task bigint PRIMARY KEY,
  upto bigint NOT NULL DEFAULT 0,
  due  boolean NOT NULL
);
CREATE INDEX run_transcripts_due ON run_transcripts (task) WHERE due;
