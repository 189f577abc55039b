-- One text for SQLite and PostgreSQL: only types that both understand. Times are
-- Unix milliseconds by the store's clock; lists and objects are JSON text.

-- +goose Up
-- bound is what an agent is bound to: the SHA-256 of its own token in hex, empty for none.
-- posted_at is its last registration.
CREATE TABLE agents (
    name           TEXT    PRIMARY KEY,
    url            TEXT    NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('online', 'offline', 'syncing', 'error', 'unknown')),
    interval_ms    BIGINT  NOT NULL CHECK (interval_ms > 0),
    capabilities   TEXT    NOT NULL,
    load           TEXT    NOT NULL,
    node_id        TEXT    NOT NULL,
    ip_addrs       TEXT    NOT NULL,
    obs_count      BIGINT  NOT NULL,
    db_sha         TEXT    NOT NULL,
    agent_version  TEXT    NOT NULL,
    os_info        TEXT    NOT NULL,
    install_method TEXT    NOT NULL,
    drain          INTEGER NOT NULL CHECK (drain IN (0, 1)),
    bound          TEXT    NOT NULL DEFAULT '',
    registered_at  BIGINT  NOT NULL,
    posted_at      BIGINT  NOT NULL DEFAULT 0,
    last_seen      BIGINT,
    heartbeat_at   BIGINT
);

CREATE TABLE projects (
    canonical_id TEXT   PRIMARY KEY,
    name         TEXT   NOT NULL,
    source       TEXT   NOT NULL CHECK (source IN ('manual', 'heartbeat')),
    created_at   BIGINT NOT NULL
);
-- The project that an agent's job names.
CREATE INDEX projects_name ON projects (name);

CREATE TABLE nodes (
    canonical_id  TEXT   NOT NULL,
    node_id       TEXT   NOT NULL,
    obs_count     BIGINT NOT NULL,
    db_sha        TEXT   NOT NULL,
    ip_addrs      TEXT   NOT NULL,
    project_id    TEXT,
    agent_version TEXT   NOT NULL,
    bound         TEXT   NOT NULL DEFAULT '', -- as of agents
    registered_at BIGINT NOT NULL,
    last_seen     BIGINT NOT NULL,
    PRIMARY KEY (canonical_id, node_id)
);

-- The last epoch of a project. The row is never deleted, so that epochs only grow.
CREATE TABLE leaderships (
    canonical_id TEXT   PRIMARY KEY,
    epoch        BIGINT NOT NULL CHECK (epoch > 0)
);

CREATE TABLE terms (
    canonical_id    TEXT    NOT NULL,
    epoch           BIGINT  NOT NULL,
    primary_node_id TEXT    NOT NULL,
    lease_seconds   INTEGER NOT NULL CHECK (lease_seconds > 0),
    issued_by       TEXT    NOT NULL,
    issued_at       BIGINT  NOT NULL,
    expires_at      BIGINT  NOT NULL,
    PRIMARY KEY (canonical_id, epoch)
);

-- output is what an agent's own program said when it carried a job out: stdout, stderr and
-- returncode, as JSON.
CREATE TABLE jobs (
    id           TEXT   PRIMARY KEY,
    kind         TEXT   NOT NULL CHECK (kind IN ('push', 'pull')),
    project      TEXT   NOT NULL,
    canonical_id TEXT   NOT NULL,
    agent        TEXT   NOT NULL,
    status       TEXT   NOT NULL CHECK (status IN ('queued', 'delivered', 'completed', 'failed')),
    detail       TEXT   NOT NULL,
    output       TEXT   NOT NULL DEFAULT '{}',
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    finished_at  BIGINT,
    CHECK ((finished_at IS NOT NULL) = (status IN ('completed', 'failed')))
);
-- Lists, and which jobs an agent has to carry out.
CREATE INDEX jobs_newest ON jobs (created_at, id);
CREATE INDEX jobs_open ON jobs (agent) WHERE status IN ('queued', 'delivered');

CREATE TABLE control_plane (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    alive_at BIGINT  NOT NULL
);
