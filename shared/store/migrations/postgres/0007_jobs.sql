-- +goose Up

-- Retries and replays of many deliveries. The relay works them off by pages, in the order of
-- the deliveries' ids.
CREATE TABLE jobs (
    id          text COLLATE "C" PRIMARY KEY,              -- a time-ordered UUID
    account     text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    filter      text NOT NULL,                            -- JSON, as it was asked for
    created_by  text NOT NULL,                            -- the caller's sub
    created_at  timestamptz NOT NULL,
    as_of       timestamptz NOT NULL,                     -- deliveries that changed later are passed over
    matched     bigint NOT NULL,
    sent        bigint NOT NULL,
    delivered   bigint NOT NULL,
    failed      bigint NOT NULL,
    cursor      text COLLATE "C" NOT NULL,                -- the last delivery that was looked at
    last_id     text COLLATE "C" NOT NULL,                -- the last delivery that matched
    all_sent    boolean NOT NULL,
    cancelled   boolean NOT NULL,
    advanced_at timestamptz NOT NULL                      -- of the page before
);
-- An account's jobs, newest first.
CREATE INDEX jobs_by_account ON jobs (account, id);
-- Those that have something left to send.
CREATE INDEX jobs_sending ON jobs (account, advanced_at) WHERE NOT all_sent AND NOT cancelled;
-- The retention.
CREATE INDEX jobs_by_age ON jobs (created_at);

-- What a job has sent and no attempt has answered yet.
CREATE TABLE job_deliveries (
    delivery_id text COLLATE "C" NOT NULL,
    job_id      text COLLATE "C" NOT NULL,
    day         date NOT NULL,
    rev         bigint NOT NULL,                          -- an answer has a greater one
    PRIMARY KEY (delivery_id, job_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
-- The retention.
CREATE INDEX job_deliveries_by_day ON job_deliveries (day);
