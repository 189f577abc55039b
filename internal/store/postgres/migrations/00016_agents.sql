-- agents are what a worker's claude knows by name: the form for a new task offers them.

-- +goose Up
ALTER TABLE workers ADD COLUMN agents jsonb NOT NULL DEFAULT '[]';
