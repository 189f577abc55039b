-- An artifact whose content lies where it should not stay, because the object storage
-- was away when the task ended. It is moved when the storage is back.

-- +goose Up
ALTER TABLE runtime_artifacts ADD COLUMN displaced INTEGER NOT NULL DEFAULT 0 CHECK (displaced IN (0, 1));
CREATE INDEX runtime_artifacts_displaced ON runtime_artifacts (seq) WHERE displaced = 1;
