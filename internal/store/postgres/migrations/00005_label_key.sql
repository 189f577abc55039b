-- label_key identifies a set of labels by a hash, see schema.LabelKey: the labels
-- themselves can be longer than an index entry may be.

-- +goose Up
UPDATE llm_tasks SET label_key = encode(sha256((
    SELECT string_agg(l, '\x00' ORDER BY l)
    FROM (SELECT DISTINCT convert_to(e, 'UTF8') FROM jsonb_array_elements_text(labels) e) x (l))), 'hex')
WHERE label_key <> '';
