-- Transcripts of which a part lies in a server's folder: with object storage, those that
-- are to be moved there.

-- +goose Up
CREATE INDEX transcripts_local ON transcripts (context_id) WHERE instr(parts, '"file:') + instr(workspace, '"file:') > 0;
