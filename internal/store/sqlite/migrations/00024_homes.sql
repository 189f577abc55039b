-- The worker that last held a context is in the context's row: nothing looks for its last
-- lease.

-- +goose Up
DROP INDEX leases_context;
