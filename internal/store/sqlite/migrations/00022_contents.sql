-- PostgreSQL keeps content here while the object storage is away; one server keeps it in
-- its folder.

-- +goose Up
SELECT 1;
