-- An artifact whose content lies where it should not stay, because the object storage
-- was away when the task ended. It is moved when the storage is back.

-- +goose Up
ALTER TABLE runtime_artifacts ADD COLUMN displaced boolean NOT NULL DEFAULT false;
CREATE INDEX runtime_artifacts_displaced ON runtime_artifacts (seq) WHERE displaced;
