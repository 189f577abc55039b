-- +goose Up
-- The order to drain that the control plane gave last and that was carried out.
ALTER TABLE workers ADD COLUMN followed_drain INTEGER NOT NULL DEFAULT 0 CHECK (followed_drain IN (0, 1));
ALTER TABLE workers ADD COLUMN followed_order INTEGER NOT NULL DEFAULT 0;
-- When the worker was last registered at the control plane, by that clock. One that
-- was removed comes back when it is registered there later.
ALTER TABLE workers ADD COLUMN posted_at INTEGER NOT NULL DEFAULT 0;
UPDATE workers SET posted_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000 WHERE removed = 1;
