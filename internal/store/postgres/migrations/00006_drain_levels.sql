-- +goose Up
-- Draining is two levels: draining is the runtime's own, control_draining the control
-- plane's as it was last heard. What the control plane had ordered becomes its level.
-- What only a worker had reported stays the runtime's: nothing tells it from what an operator drained.
ALTER TABLE workers ADD COLUMN control_draining boolean NOT NULL DEFAULT false;
UPDATE workers SET control_draining = true, draining = false WHERE draining AND followed_drain;
ALTER TABLE workers DROP COLUMN followed_drain, DROP COLUMN followed_order, DROP COLUMN told_order;
