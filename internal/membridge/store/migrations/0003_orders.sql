-- The number of the last order to drain, or of its lifting, 0 for none: the time at
-- which it was given, so that it grows even over an agent that was deleted and came
-- back. An order that stands already gets its agent's age for a number.
-- posted_at is the last registration.

-- +goose Up
ALTER TABLE agents ADD COLUMN drain_order BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN posted_at BIGINT NOT NULL DEFAULT 0;
UPDATE agents SET posted_at = registered_at;
UPDATE agents SET drain_order = registered_at WHERE drain = 1;

-- +goose Down
ALTER TABLE agents DROP COLUMN posted_at;
ALTER TABLE agents DROP COLUMN drain_order;
