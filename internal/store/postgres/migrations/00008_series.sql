-- What happened to tasks by the minute, later by the hour, kept by the transactions
-- that change them; and samples of the queue, in slot -1. cost is in billionths of a
-- US dollar. A transaction writes the slot that it holds of the counters, so that no
-- two wait for each other; the truth is the sum.

-- +goose Up
CREATE TABLE task_series (
  at         bigint  NOT NULL,
  slot       integer NOT NULL DEFAULT 0,
  created    bigint  NOT NULL DEFAULT 0,
  started    bigint  NOT NULL DEFAULT 0,
  completed  bigint  NOT NULL DEFAULT 0,
  failed     bigint  NOT NULL DEFAULT 0,
  dead       bigint  NOT NULL DEFAULT 0,
  cancelled  bigint  NOT NULL DEFAULT 0,
  tokens     bigint  NOT NULL DEFAULT 0,
  tokens_in  bigint  NOT NULL DEFAULT 0,
  tokens_out bigint  NOT NULL DEFAULT 0,
  cost       bigint  NOT NULL DEFAULT 0,
  queued     bigint,
  running    bigint,
  wait       bigint,
  PRIMARY KEY (at, slot)
) WITH (fillfactor = 50);
