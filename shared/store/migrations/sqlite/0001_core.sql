-- +goose Up

-- One row: the version of the webhook configuration. It is a counter under a row lock
-- rather than a sequence because it has to follow the order of commits.
CREATE TABLE config_version (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL
) STRICT;
INSERT INTO config_version (id, version) VALUES (1, 1);

-- One row: days before this one have been dropped from the log; what still arrives
-- for them is counted and not written.
CREATE TABLE log_floor (
    id  integer PRIMARY KEY CHECK (id = 1),
    day integer NOT NULL
) STRICT;
INSERT INTO log_floor (id, day) VALUES (1, 0);

CREATE TABLE webhooks (
    id                         text NOT NULL PRIMARY KEY,
    account                    text NOT NULL,
    url                        text NOT NULL,
    events                     text NOT NULL,         -- comma separated
    active                     integer NOT NULL,      -- as the owner set it
    description                text NOT NULL,
    headers                    blob,                  -- sealed
    retry_schedule             text,                  -- microseconds, comma separated; NULL: the installation's
    timeout_ms                 integer NOT NULL,
    max_in_flight              integer NOT NULL,
    rate_per_second            real,
    secret                     blob,                  -- sealed
    previous_secret            blob,                  -- sealed
    previous_secret_expires_at integer,
    created_at                 integer NOT NULL,
    updated_at                 integer NOT NULL,
    version                    integer NOT NULL,
    activated_version          integer NOT NULL,
    activated_at               integer,
    deactivated_at             integer,
    deleted                    integer NOT NULL,
    deleted_at                 integer
) STRICT;
-- The list of an account's webhooks, and how many it has.
CREATE INDEX webhooks_by_account ON webhooks (account, created_at, id);
-- What changed since a version.
CREATE INDEX webhooks_by_version ON webhooks (version);

CREATE TABLE webhook_health (
    webhook_id       text NOT NULL PRIMARY KEY,
    failing_since    integer,
    changed_at       integer,                         -- of the newest change to failing_since
    disabled_version integer NOT NULL,
    disabled_reason  text NOT NULL,
    disabled_at      integer,
    updated_at       integer NOT NULL
) STRICT;
-- What changed since a time.
CREATE INDEX webhook_health_by_update ON webhook_health (updated_at);

CREATE TABLE events (
    day         integer NOT NULL,
    account     text NOT NULL,
    id          text NOT NULL,
    type        text NOT NULL,
    occurred_at text NOT NULL,                        -- RFC 3339, as published
    payload     blob NOT NULL,
    received_at integer NOT NULL,
    repeats     text NOT NULL DEFAULT '',             -- Unix ms of later acceptances of the id on that day, each followed by a space
    PRIMARY KEY (account, id, day)
) STRICT;
-- An account's events of one type, newest first; a list of all types merges the four. A
-- commit gives all its events one time, so the index stays small and ties are sorted.
CREATE INDEX events_by_time ON events (account, type, received_at);

-- Events that are accepted and not settled: short-lived rows.
CREATE TABLE outbox (
    received_at integer NOT NULL,
    account     text NOT NULL,
    id          text NOT NULL,
    version     integer NOT NULL,
    relayed_at  integer,
    relayed     integer NOT NULL DEFAULT 0,
    PRIMARY KEY (received_at, account, id)
) STRICT, WITHOUT ROWID;

-- Tests, retries and replays that have been asked for and not answered.
CREATE TABLE requests (
    id          text NOT NULL PRIMARY KEY,            -- a time-ordered UUID, a dash, the delivery
    kind        text NOT NULL,
    account     text NOT NULL,
    webhook_id  text NOT NULL,
    event_id    text NOT NULL,
    event_type  text NOT NULL,
    day         integer NOT NULL,
    delivery_id text NOT NULL UNIQUE,                 -- one open request a delivery
    test        integer NOT NULL,
    created_at  integer NOT NULL,
    relayed_at  integer
) STRICT;
-- The pending deliveries of an account.
CREATE INDEX requests_by_account ON requests (account, delivery_id);

-- An attempt is kept in the delivery's own row (attempt_…) while that has none: most
-- deliveries need one attempt, and so one row. Later ones are in attempts.
CREATE TABLE deliveries (
    day                integer NOT NULL,
    id                 text NOT NULL,
    account            text NOT NULL,
    webhook_id         text NOT NULL,
    event_id           text NOT NULL,
    event_type         text NOT NULL,
    status             text NOT NULL,
    rev                integer NOT NULL,
    attempts           integer NOT NULL,
    run_attempts       integer NOT NULL,
    run_started_at     integer,
    next_attempt_at    integer,
    in_lane            integer NOT NULL,
    reason             text NOT NULL,
    test               integer NOT NULL,
    updated_at         integer NOT NULL,
    attempt_id         text,
    attempt_number     integer,
    attempt_started_at integer,
    attempt_us         integer,
    attempt_status     integer,
    attempt_error      text,
    attempt_body       text,
    PRIMARY KEY (account, id, day)
) STRICT;
-- A webhook's deliveries, newest first. An account's are found by the primary key.
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, id);
-- What is not delivered, by account, by webhook (replay), and all of it (restore,
-- retention): nothing on the good path, where a row is born delivered.
CREATE INDEX deliveries_open_by_account ON deliveries (account, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_open_by_webhook ON deliveries (webhook_id, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_undelivered ON deliveries (id) WHERE status IN ('pending', 'retrying', 'held');

CREATE TABLE attempts (
    day         integer NOT NULL,
    delivery_id text NOT NULL,
    id          text NOT NULL,
    number      integer NOT NULL,
    started_at  integer NOT NULL,
    duration_us integer NOT NULL,
    status      integer NOT NULL,
    error       text NOT NULL,
    body        text NOT NULL,
    PRIMARY KEY (delivery_id, id, day)
) STRICT;

CREATE TABLE idempotency_keys (
    account    text NOT NULL,
    path       text NOT NULL,
    key        blob NOT NULL,                         -- SHA-256 of the key
    body_hash  blob NOT NULL,
    status     integer NOT NULL,
    response   blob,                                  -- sealed
    created_at integer NOT NULL,
    PRIMARY KEY (account, path, key)
) STRICT;
-- The purge after 24 hours.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- How far the bus's streams were when this database last heard of them.
CREATE TABLE bus_streams (
    name       text NOT NULL PRIMARY KEY,
    created_at integer NOT NULL,
    last_seq   integer NOT NULL,
    server     text NOT NULL,
    seen_at    integer NOT NULL
) STRICT;
