-- +goose Up
-- Keys created with `bloom keys`: the key itself is stored nowhere, digest is its
-- SHA-256 in hex.
CREATE TABLE api_keys (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  name         TEXT    NOT NULL,
  role         TEXT    NOT NULL CHECK (role IN ('admin','client','worker','viewer')),
  worker_id    TEXT,
  digest       TEXT    NOT NULL CHECK (length(digest) = 64),
  created_at   INTEGER NOT NULL,
  created_by   TEXT    NOT NULL,
  expires_at   INTEGER,
  last_used_at INTEGER,
  revoked_at   INTEGER,
  CHECK (worker_id IS NULL OR role = 'worker')
);

-- Sign-ins of browsers. The cookie is sealed with the key in the data folder; turn
-- tells its newest form from older ones.
CREATE TABLE sessions (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  name         TEXT    NOT NULL,
  role         TEXT    NOT NULL CHECK (role IN ('admin','client','worker','viewer')),
  key_id       TEXT,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  address      TEXT    NOT NULL,
  user_agent   TEXT    NOT NULL,
  turn         INTEGER NOT NULL,
  turned_at    INTEGER NOT NULL
);

ALTER TABLE audit_logs ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_logs ADD COLUMN address TEXT NOT NULL DEFAULT '';
