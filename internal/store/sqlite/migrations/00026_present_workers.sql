-- Removed workers are kept; lists, numbers and the choice of a worker need only the others.

-- +goose Up
CREATE INDEX workers_present ON workers (id) WHERE NOT removed;
