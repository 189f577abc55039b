-- How often the database was found to be older than the exported files of the audit,
-- because a backup was restored.

-- +goose Up
ALTER TABLE audit_export ADD COLUMN branch INTEGER NOT NULL DEFAULT 0;
