-- What the lease's attempt has used: as its worker last reported, and as completed once it
-- has ended. cost is in billionths of a US dollar.

-- +goose Up
ALTER TABLE leases ADD COLUMN tokens     bigint NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN tokens_in  bigint NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN tokens_out bigint NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN cost       bigint NOT NULL DEFAULT 0;
