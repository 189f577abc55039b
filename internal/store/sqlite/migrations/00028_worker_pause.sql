-- pause is why a worker takes no tasks for a while: its credentials are refused or limited.

-- +goose Up
ALTER TABLE workers ADD COLUMN pause TEXT NOT NULL DEFAULT 'null';
