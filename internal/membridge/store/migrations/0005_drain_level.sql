-- Draining is a level, drain; its words are no longer counted.

-- +goose Up
ALTER TABLE agents DROP COLUMN drain_order;

-- +goose Down
ALTER TABLE agents ADD COLUMN drain_order BIGINT NOT NULL DEFAULT 0;
