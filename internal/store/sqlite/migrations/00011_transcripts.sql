-- The transcripts of contexts: where their parts lie in the blob store. folder is the
-- parts' place there.

-- +goose Up
CREATE TABLE transcripts (
  context_id TEXT    NOT NULL PRIMARY KEY,
  folder     TEXT    NOT NULL UNIQUE,
  updated_at INTEGER NOT NULL,
  size       INTEGER NOT NULL,
  session_id TEXT    NOT NULL,
  sha256     TEXT    NOT NULL,
  parts      TEXT    NOT NULL
);
-- Contexts that were forgotten, for workers to forget them too.
CREATE TABLE forgotten_contexts (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  context_id TEXT    NOT NULL
);
