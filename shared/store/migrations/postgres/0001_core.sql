-- +goose Up

-- One row: the version of the webhook configuration. It is a counter under a row lock
-- rather than a sequence because it has to follow the order of commits.
CREATE TABLE config_version (
    id      smallint PRIMARY KEY CHECK (id = 1),
    version bigint NOT NULL
);
INSERT INTO config_version (id, version) VALUES (1, 1);

-- One row: days before this one have been dropped from the log; what still arrives
-- for them is counted and not written.
CREATE TABLE log_floor (
    id  smallint PRIMARY KEY CHECK (id = 1),
    day date NOT NULL
);
INSERT INTO log_floor (id, day) VALUES (1, '1970-01-01');

CREATE TABLE webhooks (
    id                         text COLLATE "C" PRIMARY KEY,
    account                    text COLLATE "C" NOT NULL,
    url                        text NOT NULL,
    events                     text NOT NULL,             -- comma separated
    active                     boolean NOT NULL,          -- as the owner set it
    description                text NOT NULL,
    headers                    bytea,                     -- sealed
    retry_schedule             text,                      -- microseconds, comma separated; NULL: the installation's
    timeout_ms                 bigint NOT NULL,
    max_in_flight              integer NOT NULL,
    rate_per_second            double precision,
    secret                     bytea,                     -- sealed
    previous_secret            bytea,                     -- sealed
    previous_secret_expires_at timestamptz,
    created_at                 timestamptz NOT NULL,
    updated_at                 timestamptz NOT NULL,
    version                    bigint NOT NULL,
    activated_version          bigint NOT NULL,
    activated_at               timestamptz,
    deactivated_at             timestamptz,
    deleted                    boolean NOT NULL,
    deleted_at                 timestamptz
);
-- The list of an account's webhooks, and how many it has.
CREATE INDEX webhooks_by_account ON webhooks (account, created_at, id);
-- What changed since a version.
CREATE INDEX webhooks_by_version ON webhooks (version);

CREATE TABLE webhook_health (
    webhook_id       text COLLATE "C" PRIMARY KEY,
    failing_since    timestamptz,
    changed_at       timestamptz,                         -- of the newest change to failing_since
    disabled_version bigint NOT NULL,
    disabled_reason  text NOT NULL,
    disabled_at      timestamptz,
    updated_at       timestamptz NOT NULL
);
-- What changed since a time.
CREATE INDEX webhook_health_by_update ON webhook_health (updated_at);

-- Partitions of the log are named <table>_p<yyyymmdd>; the store makes and drops them.
CREATE TABLE events (
    day         date NOT NULL,
    account     text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    type        text COLLATE "C" NOT NULL,
    occurred_at text NOT NULL,                            -- RFC 3339, as published
    payload     bytea NOT NULL,
    received_at timestamptz NOT NULL,
    repeats     text COLLATE "C" NOT NULL DEFAULT '',     -- Unix ms of later acceptances of the id on that day, each followed by a space
    PRIMARY KEY (account, id, day)
) PARTITION BY RANGE (day);
-- An account's events of one type, newest first; a list of all types merges the four. A
-- commit gives all its events one time, so the index stays small and ties are sorted.
CREATE INDEX events_by_time ON events (account, type, received_at);

-- Events that are accepted and not settled: short-lived rows, so vacuum is told to
-- come early.
CREATE TABLE outbox (
    received_at timestamptz NOT NULL,
    account     text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    relayed_at  timestamptz,
    relayed     integer NOT NULL DEFAULT 0,
    PRIMARY KEY (received_at, account, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- Tests, retries and replays that have been asked for and not answered.
CREATE TABLE requests (
    id          text COLLATE "C" PRIMARY KEY,             -- a time-ordered UUID, a dash, the delivery
    kind        text NOT NULL,
    account     text COLLATE "C" NOT NULL,
    webhook_id  text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    event_type  text COLLATE "C" NOT NULL,
    day         date NOT NULL,
    delivery_id text COLLATE "C" NOT NULL UNIQUE,         -- one open request a delivery
    test        boolean NOT NULL,
    created_at  timestamptz NOT NULL,
    relayed_at  timestamptz
);
-- The pending deliveries of an account.
CREATE INDEX requests_by_account ON requests (account, delivery_id);

-- An attempt is kept in the delivery's own row (attempt_…) while that has none: most
-- deliveries need one attempt, and so one row. Later ones are in attempts.
CREATE TABLE deliveries (
    day                date NOT NULL,
    id                 text COLLATE "C" NOT NULL,
    account            text COLLATE "C" NOT NULL,
    webhook_id         text COLLATE "C" NOT NULL,
    event_id           text COLLATE "C" NOT NULL,
    event_type         text COLLATE "C" NOT NULL,
    status             text COLLATE "C" NOT NULL,
    rev                bigint NOT NULL,
    attempts           integer NOT NULL,
    run_attempts       integer NOT NULL,
    run_started_at     timestamptz,
    next_attempt_at    timestamptz,
    in_lane            boolean NOT NULL,
    reason             text NOT NULL,
    test               boolean NOT NULL,
    updated_at         timestamptz NOT NULL,
    attempt_id         text COLLATE "C",
    attempt_number     integer,
    attempt_started_at timestamptz,
    attempt_us         bigint,
    attempt_status     integer,
    attempt_error      text,
    attempt_body       text,
    PRIMARY KEY (account, id, day)
) PARTITION BY RANGE (day);
-- A webhook's deliveries, newest first. An account's are found by the primary key.
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, id);
-- What is not delivered, by account, by webhook (replay), and all of it (restore,
-- retention): nothing on the good path, where a row is born delivered.
CREATE INDEX deliveries_open_by_account ON deliveries (account, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_open_by_webhook ON deliveries (webhook_id, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_undelivered ON deliveries (id) WHERE status IN ('pending', 'retrying', 'held');

CREATE TABLE attempts (
    day         date NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    number      integer NOT NULL,
    started_at  timestamptz NOT NULL,
    duration_us bigint NOT NULL,
    status      integer NOT NULL,
    error       text NOT NULL,
    body        text NOT NULL,
    PRIMARY KEY (delivery_id, id, day)
) PARTITION BY RANGE (day);

CREATE TABLE idempotency_keys (
    account    text COLLATE "C" NOT NULL,
    path       text COLLATE "C" NOT NULL,
    key        bytea NOT NULL,                            -- SHA-256 of the key
    body_hash  bytea NOT NULL,
    status     integer NOT NULL,
    response   bytea,                                     -- sealed
    created_at timestamptz NOT NULL,
    PRIMARY KEY (account, path, key)
);
-- The purge after 24 hours.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- How far the bus's streams were when this database last heard of them.
CREATE TABLE bus_streams (
    name       text COLLATE "C" PRIMARY KEY,
    created_at timestamptz NOT NULL,
    last_seq   bigint NOT NULL,
    server     text NOT NULL,
    seen_at    timestamptz NOT NULL
);
