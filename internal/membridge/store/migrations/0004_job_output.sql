-- What an agent's own program said when it carried a job out: stdout, stderr and
-- returncode, as JSON.

-- +goose Up
ALTER TABLE jobs ADD COLUMN output TEXT NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE jobs DROP COLUMN output;
