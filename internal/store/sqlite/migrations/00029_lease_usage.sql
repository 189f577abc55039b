-- What the lease's attempt has used: as its worker last reported, and as completed once it
-- has ended. cost is in billionths of a US dollar.

-- +goose Up
ALTER TABLE leases ADD COLUMN tokens     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN tokens_in  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN tokens_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN cost       INTEGER NOT NULL DEFAULT 0;
