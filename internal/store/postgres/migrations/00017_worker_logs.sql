-- The last log lines that each worker reported: one row a worker.

-- +goose Up
CREATE TABLE worker_logs (
  worker_id  text   COLLATE "C" PRIMARY KEY,
  updated_at bigint NOT NULL,
  lines      text   NOT NULL
);
