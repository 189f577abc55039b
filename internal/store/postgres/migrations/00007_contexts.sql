-- What the tasks of a context have in common, kept by the transactions that change
-- tasks. seq is the number of its newest task, by which contexts are listed.

-- +goose Up
CREATE TABLE contexts (
  seq          bigint NOT NULL,
  created_at   bigint NOT NULL,
  last_used_at bigint NOT NULL,
  updated_at   bigint NOT NULL,
  tasks        bigint NOT NULL,
  unfinished   bigint NOT NULL,
  tokens       bigint NOT NULL DEFAULT 0,
  cost_nano    bigint NOT NULL DEFAULT 0, -- billionths of a US dollar
  id           text   COLLATE "C" PRIMARY KEY,
  worker_id    text   COLLATE "C"
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX contexts_seq ON contexts (seq);
-- Tasks numbered below are in no context yet: they are taken in while the servers
-- run, the newest first.
CREATE TABLE context_fill (
  one   boolean PRIMARY KEY CHECK (one),
  below bigint  NOT NULL
);
INSERT INTO context_fill (one, below) SELECT true, coalesce(max(seq) + 1, 0) FROM llm_tasks;
