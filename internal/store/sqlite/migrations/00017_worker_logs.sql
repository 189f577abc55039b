-- The last log lines that each worker reported: one row a worker.

-- +goose Up
CREATE TABLE worker_logs (
  worker_id  TEXT NOT NULL PRIMARY KEY,
  updated_at INTEGER NOT NULL,
  lines      TEXT NOT NULL
);
