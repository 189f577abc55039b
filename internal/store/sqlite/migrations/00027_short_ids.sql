-- The web application shows the last characters of an id, and the command line finds by them.

-- +goose Up
CREATE INDEX llm_tasks_short         ON llm_tasks (substr(id, -8));
CREATE INDEX runtime_artifacts_short ON runtime_artifacts (substr(id, -8));
CREATE INDEX contexts_short          ON contexts (substr(id, -8));
