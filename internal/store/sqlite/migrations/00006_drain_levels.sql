-- +goose Up
-- Draining is two levels: draining is the runtime's own, control_draining the control
-- plane's as it was last heard. What the control plane had ordered becomes its level.
-- What only a worker had reported stays the runtime's: nothing tells it from what an operator drained.
ALTER TABLE workers ADD COLUMN control_draining INTEGER NOT NULL DEFAULT 0 CHECK (control_draining IN (0, 1));
UPDATE workers SET control_draining = 1, draining = 0 WHERE draining = 1 AND followed_drain = 1;
ALTER TABLE workers DROP COLUMN followed_drain;
ALTER TABLE workers DROP COLUMN followed_order;
ALTER TABLE workers DROP COLUMN told_order;
