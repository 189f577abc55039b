-- The audit's chain: each entry's hash covers the hash before it. Where retention has
-- removed an entry and the next one stays, its hash stays, with the time of the removal
-- (Unix milliseconds). Entries that were there before are chained in the background.

-- +goose Up
CREATE TABLE audit_chain (
  seq        INTEGER PRIMARY KEY,
  hash       BLOB    NOT NULL CHECK (length(hash) = 32),
  removed_at INTEGER
);
-- The last entry that is chained.
CREATE TABLE audit_head (
  one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  seq  INTEGER NOT NULL,
  hash BLOB    NOT NULL CHECK (length(hash) = 32)
);
INSERT INTO audit_head (one, seq, hash) VALUES (1, 0, zeroblob(32));
-- The last entry in an exported file, and the last one of the file being written.
CREATE TABLE audit_export (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  exported INTEGER NOT NULL,
  hash     TEXT    NOT NULL,
  planned  INTEGER NOT NULL
);
INSERT INTO audit_export (one, exported, hash, planned) VALUES (1, 0, '', 0);
