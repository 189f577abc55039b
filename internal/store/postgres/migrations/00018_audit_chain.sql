-- The audit's chain: each entry's hash covers the hash before it. Where retention has
-- removed an entry and the next one stays, its hash stays, with the time of the removal
-- (Unix milliseconds). Entries that were there before are chained in the background.

-- +goose Up
CREATE TABLE audit_chain (
  seq        bigint PRIMARY KEY,
  removed_at bigint,
  hash       bytea  NOT NULL CHECK (octet_length(hash) = 32)
);
-- The last entry that is chained.
CREATE TABLE audit_head (
  one  boolean PRIMARY KEY CHECK (one),
  seq  bigint NOT NULL,
  hash bytea  NOT NULL CHECK (octet_length(hash) = 32)
) WITH (fillfactor = 10);
INSERT INTO audit_head (one, seq, hash) VALUES (true, 0, decode(repeat('00', 32), 'hex'));
-- The last entry in an exported file, and the last one of the file being written.
CREATE TABLE audit_export (
  one      boolean PRIMARY KEY CHECK (one),
  exported bigint NOT NULL,
  hash     text   NOT NULL,
  planned  bigint NOT NULL
);
INSERT INTO audit_export (one, exported, hash, planned) VALUES (true, 0, '', 0);
