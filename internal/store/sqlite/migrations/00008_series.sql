-- What happened to tasks by the minute, later by the hour, kept by the transactions
-- that change them; and samples of the queue. cost is in billionths of a US dollar.

-- +goose Up
CREATE TABLE task_series (
  at         INTEGER PRIMARY KEY,
  created    INTEGER NOT NULL DEFAULT 0,
  started    INTEGER NOT NULL DEFAULT 0,
  completed  INTEGER NOT NULL DEFAULT 0,
  failed     INTEGER NOT NULL DEFAULT 0,
  dead       INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  tokens     INTEGER NOT NULL DEFAULT 0,
  tokens_in  INTEGER NOT NULL DEFAULT 0,
  tokens_out INTEGER NOT NULL DEFAULT 0,
  cost       INTEGER NOT NULL DEFAULT 0,
  queued     INTEGER,
  running    INTEGER,
  wait       INTEGER
);
