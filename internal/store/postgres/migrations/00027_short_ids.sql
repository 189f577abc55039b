-- The web application shows the last characters of an id, and the command line finds by them.

-- +goose Up
CREATE INDEX llm_tasks_short         ON llm_tasks (right(id::text, 8), seq);
CREATE INDEX runtime_artifacts_short ON runtime_artifacts (right(id::text, 8), seq);
CREATE INDEX contexts_short          ON contexts (right(id, 8));
