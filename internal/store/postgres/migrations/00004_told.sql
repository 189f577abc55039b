-- +goose Up
-- The order to drain that was carried out last by the worker's word alone. Before, it
-- lay with the control plane's, and could not be told from a lifting.
ALTER TABLE workers ADD COLUMN told_order bigint NOT NULL DEFAULT 0;
UPDATE workers SET told_order = followed_order WHERE NOT followed_drain;
