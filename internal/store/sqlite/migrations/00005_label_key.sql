-- label_key identifies a set of labels by a hash, see schema.LabelKey, in lockstep
-- with PostgreSQL, which bounds the length of an index entry.

-- +goose Up
UPDATE llm_tasks SET label_key = bloom_label_key(labels) WHERE label_key <> '';
