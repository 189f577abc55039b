-- +goose Up
-- The order to drain that the control plane gave last and that was carried out.
ALTER TABLE workers ADD COLUMN followed_drain boolean NOT NULL DEFAULT false;
ALTER TABLE workers ADD COLUMN followed_order bigint NOT NULL DEFAULT 0;
-- When the worker was last registered at the control plane, by that clock. One that
-- was removed comes back when it is registered there later.
ALTER TABLE workers ADD COLUMN posted_at bigint NOT NULL DEFAULT 0;
UPDATE workers SET posted_at = (extract(epoch FROM now()) * 1000)::bigint WHERE removed;
