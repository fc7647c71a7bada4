-- +goose Up

-- One row: counts the changes of what gateways serve. It is a counter under a row lock rather
-- than a sequence because it has to follow the order of commits.
CREATE TABLE gateway_version (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL
) STRICT;
INSERT INTO gateway_version (id, version) VALUES (1, 1);

-- The branch of a project that is production.
ALTER TABLE projects ADD COLUMN production_branch text NOT NULL DEFAULT 'main';

-- The running environment of one branch. The api makes and removes it; a gateway that ends a
-- build sets what follows from that. A removed one stays for a day, so that gateways learn of it.
CREATE TABLE gateway_deployments (
    seq                  integer PRIMARY KEY,
    name                 text NOT NULL UNIQUE,
    account              text NOT NULL REFERENCES accounts (name),
    project              text NOT NULL,
    branch               text NOT NULL,
    environment_type     text NOT NULL,                -- of the active build, else of the newest
    state                text NOT NULL,                -- BUILDING, STARTED, ERRORED
    message              text NOT NULL,
    active_build         text NOT NULL,    -- empty: none has succeeded
    active_number        integer NOT NULL,              -- of the active build; 0: none
    last_number          integer NOT NULL,              -- of the newest build
    variables_changed_at integer,                  -- set while variables are newer than the active build
    version              integer NOT NULL,              -- gateway_version at the last change that gateways must see
    created_at           integer NOT NULL,
    created_by           text NOT NULL,                -- the caller's sub
    updated_at           integer NOT NULL,
    removed_at           integer
) STRICT;
CREATE INDEX gateway_deployments_by_project ON gateway_deployments (account, project, created_at, seq) WHERE removed_at IS NULL;
CREATE INDEX gateway_deployments_by_version ON gateway_deployments (version);

-- An archive of route files, and the permission to upload it until then. The id is the status
-- id of the first build that is made of it.
CREATE TABLE gateway_sources (
    id          text NOT NULL PRIMARY KEY,          -- a time-ordered UUID
    account     text NOT NULL,
    project     text NOT NULL,
    branch      text NOT NULL,
    deployment  text NOT NULL,
    format      text NOT NULL,                         -- zip, tar.gz; empty: not uploaded yet
    size        integer NOT NULL,                       -- of the archive, in bytes
    archive     blob,                                 -- NULL: not uploaded yet
    created_at  integer NOT NULL,
    created_by  text NOT NULL,                         -- the caller's sub
    created_key text NOT NULL,             -- the id of the caller's key, for the audit log
    uploaded_at integer
) STRICT;
-- The purge of what was never uploaded.
CREATE INDEX gateway_sources_by_age ON gateway_sources (created_at) WHERE uploaded_at IS NULL;

-- The api makes a build; the gateway that has claimed it writes all from claims on.
CREATE TABLE gateway_builds (
    id               text NOT NULL PRIMARY KEY,     -- a time-ordered UUID
    status_id        text NOT NULL UNIQUE,
    deployment       text NOT NULL,
    account          text NOT NULL,
    project          text NOT NULL,
    branch           text NOT NULL,
    number           integer NOT NULL,                  -- 1, 2, 3 of the deployment
    source_id        text NOT NULL,
    environment_type text NOT NULL,
    status           text NOT NULL,                    -- QUEUED, BUILDING, SUCCESS, ERROR
    created_at       integer NOT NULL,
    created_by       text NOT NULL,                    -- the caller's sub
    created_key      text NOT NULL,        -- the id of the caller's key, for the audit log
    request_id       text NOT NULL,                    -- of the request that made it
    claims           integer NOT NULL,                 -- how often it was begun
    owner            text NOT NULL,        -- the claim; empty: none
    lease_until      integer,
    started_at       integer,
    finished_at      integer,
    activated_at     integer,
    routes           integer NOT NULL,
    variables        blob,                            -- sealed: what $env stands for in it
    steps            text NOT NULL,                    -- JSON
    faults           text NOT NULL,                    -- JSON
    log              text NOT NULL,                    -- JSON
    UNIQUE (deployment, number)
) STRICT;
-- What waits for a gateway, or is in the hands of one.
CREATE INDEX gateway_builds_open ON gateway_builds (created_at) WHERE status IN ('QUEUED', 'BUILDING');
-- The purge of sources.
CREATE INDEX gateway_builds_by_source ON gateway_builds (source_id);

CREATE TABLE gateway_variables (
    seq        integer PRIMARY KEY,
    account    text NOT NULL,
    project    text NOT NULL,
    branch     text NOT NULL,              -- ~preview: what all preview branches take
    name       text NOT NULL,
    secret     integer NOT NULL,
    sealed     blob NOT NULL,                         -- the value
    created_at integer NOT NULL,
    updated_at integer NOT NULL,
    UNIQUE (account, project, branch, name)
) STRICT;
