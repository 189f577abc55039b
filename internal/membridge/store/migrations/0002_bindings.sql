-- What an agent or a node is bound to: the SHA-256 of its own token in hex, empty
-- for none.

-- +goose Up
ALTER TABLE agents ADD COLUMN bound TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN bound TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE nodes DROP COLUMN bound;
ALTER TABLE agents DROP COLUMN bound;
