-- Content of artifacts that are too large or not text enough for their rows, in chunks of
-- 1 MiB, while the object storage is away. What is not whole was never stored.

-- +goose Up
CREATE TABLE contents (
  id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key    text    NOT NULL,
  size   bigint  NOT NULL,
  put_at bigint  NOT NULL,
  whole  boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX contents_key ON contents (key) WHERE whole;
CREATE TABLE content_chunks (
  content_id bigint  NOT NULL REFERENCES contents ON DELETE CASCADE,
  n          integer NOT NULL,
  data       bytea   NOT NULL,
  PRIMARY KEY (content_id, n)
);
ALTER TABLE content_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
