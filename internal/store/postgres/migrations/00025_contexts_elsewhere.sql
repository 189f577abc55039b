-- Transcripts of which a part lies in a server's folder or, put there while the object
-- storage was away, in the database: with object storage, those that are to be moved.

-- +goose Up
DROP INDEX transcripts_local;
CREATE INDEX transcripts_local ON transcripts (context_id)
  WHERE position('"file:' in parts) + position('"file:' in workspace) + position('"database:' in parts) + position('"database:' in workspace) > 0;
