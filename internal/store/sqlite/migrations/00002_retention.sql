-- +goose Up
-- Where the numbering of a stream goes on after its events were removed; a task
-- whose events are there does not need it.
ALTER TABLE llm_tasks ADD COLUMN last_event INTEGER NOT NULL DEFAULT 0 CHECK (last_event >= 0);
-- A task's leases, to be removed with it. A task that has ended holds none.
CREATE INDEX leases_ended ON leases (task_id) WHERE status <> 'active';
-- Content in the blob store whose artifact was removed and that is to be deleted.
CREATE TABLE removed_contents (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  url        TEXT    NOT NULL,
  removed_at INTEGER NOT NULL
);
