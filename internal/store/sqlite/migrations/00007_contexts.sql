-- What the tasks of a context have in common, kept by the transactions that change
-- tasks. seq is the number of its newest task, by which contexts are listed.

-- +goose Up
CREATE TABLE contexts (
  id           TEXT    NOT NULL PRIMARY KEY,
  seq          INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  tasks        INTEGER NOT NULL,
  unfinished   INTEGER NOT NULL,
  tokens       INTEGER NOT NULL DEFAULT 0,
  cost_nano    INTEGER NOT NULL DEFAULT 0, -- billionths of a US dollar
  worker_id    TEXT
);
CREATE INDEX contexts_seq ON contexts (seq);
-- Tasks numbered below are in no context yet: they are taken in while the server
-- runs, the newest first.
CREATE TABLE context_fill (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  below INTEGER NOT NULL
);
INSERT INTO context_fill (one, below) SELECT 1, COALESCE(MAX(seq) + 1, 0) FROM llm_tasks;
