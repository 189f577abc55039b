-- Artifacts of a run besides its output: files that the task asks for, and the
-- transcript of the run's events. A path is unique within an attempt.

-- +goose Up
ALTER TABLE llm_tasks ADD COLUMN artifact_globs TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runtime_artifacts ADD COLUMN epoch INTEGER;
ALTER TABLE runtime_artifacts ADD COLUMN path TEXT;
CREATE UNIQUE INDEX runtime_artifacts_path ON runtime_artifacts (task_id, epoch, path) WHERE path IS NOT NULL;

-- Up to which event a task's stream lies in transcripts, and whether it has ended since.
CREATE TABLE run_transcripts (
  task INTEGER PRIMARY KEY,
  upto INTEGER NOT NULL DEFAULT 0,
  due  INTEGER NOT NULL DEFAULT 0 CHECK (due IN (0, 1))
);
CREATE INDEX run_transcripts_due ON run_transcripts (task) WHERE due = 1;
