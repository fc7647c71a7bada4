-- +goose Up

-- What was counted and is not merged into rollups yet: a row for each transaction that
-- accepted events (by account and type) or recorded attempts (counts, in the form of the
-- package rollup). Rows are short-lived, so vacuum is told to come early.
CREATE TABLE rollup_deltas (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account    text COLLATE "C" NOT NULL,                 -- empty: counts says whose
    event_type text COLLATE "C" NOT NULL,
    minute     timestamptz NOT NULL,
    events     bigint NOT NULL,
    counts     bytea
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
-- To compress what lives for a minute would cost more than to write it.
ALTER TABLE rollup_deltas ALTER COLUMN counts SET STORAGE EXTERNAL;

-- Counts of a minute, an hour and a day, merged from the deltas: of each webhook, and
-- (webhook_id empty) of the account. Class is empty in the rows of accepted events.
CREATE TABLE rollups (
    account    text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    step       integer NOT NULL,                          -- minutes
    start      timestamptz NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    class      text COLLATE "C" NOT NULL,
    events     bigint NOT NULL,
    deliveries bigint NOT NULL,                           -- first attempts
    attempts   bigint NOT NULL,
    last_at    timestamptz,                               -- when the last attempt ended
    latency    bytea NOT NULL,                            -- a histogram, in the form of the package rollup
    PRIMARY KEY (account, webhook_id, step, start, event_type, class)
) WITH (fillfactor = 80);
-- The purge.
CREATE INDEX rollups_by_age ON rollups (start);

-- The circuit of each webhook that has failed, as the dispatcher that owns it last said.
CREATE TABLE webhook_circuits (
    webhook_id    text COLLATE "C" PRIMARY KEY,
    open_since    timestamptz,                            -- NULL: it is closed
    failures      bigint NOT NULL,                        -- in a row
    failing_since timestamptz,                            -- the first of them
    next_probe_at timestamptz,
    said_at       timestamptz NOT NULL,
    answer_at     timestamptz,                            -- of the last failed attempt
    answer_class  text COLLATE "C" NOT NULL,
    answer_status integer NOT NULL,                       -- 0: no answer
    answer_body   text NOT NULL                           -- its beginning
) WITH (fillfactor = 80);
-- What a dispatcher looks for when it becomes a webhook's owner.
CREATE INDEX webhook_circuits_failing ON webhook_circuits (webhook_id) WHERE failures > 0;
