-- PostgreSQL keeps parts of transcripts in the database while the object storage is away;
-- one server keeps them in its folder.

-- +goose Up
SELECT 1;
