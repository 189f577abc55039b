-- Tasks whose texts were changed by a transaction, for the index of words, which lies
-- in a file of its own. search_rounds counts the batches that entered the index, so
-- that an index of another state of this file is noticed.

-- +goose Up
CREATE TABLE search_queue (
  id    INTEGER PRIMARY KEY,
  tasks TEXT NOT NULL
);
-- Tasks whose output could not be read.
CREATE TABLE search_retries (
  task  INTEGER PRIMARY KEY,
  due   INTEGER NOT NULL,
  tries INTEGER NOT NULL
);
CREATE INDEX search_retries_due ON search_retries (due);
CREATE TABLE search_rounds (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  rounds INTEGER NOT NULL
);
INSERT INTO search_rounds (one, rounds) VALUES (1, 0);
