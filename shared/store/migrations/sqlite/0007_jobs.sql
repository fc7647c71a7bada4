-- +goose Up

-- Retries and replays of many deliveries. The relay works them off by pages, in the order of
-- the deliveries' ids.
CREATE TABLE jobs (
    id          text NOT NULL PRIMARY KEY,            -- a time-ordered UUID
    account     text NOT NULL,
    kind        text NOT NULL,
    filter      text NOT NULL,                        -- JSON, as it was asked for
    created_by  text NOT NULL,                        -- the caller's sub
    created_at  integer NOT NULL,
    as_of       integer NOT NULL,                     -- deliveries that changed later are passed over
    matched     integer NOT NULL,
    sent        integer NOT NULL,
    delivered   integer NOT NULL,
    failed      integer NOT NULL,
    cursor      text NOT NULL,                        -- the last delivery that was looked at
    last_id     text NOT NULL,                        -- the last delivery that matched
    all_sent    integer NOT NULL,
    cancelled   integer NOT NULL,
    advanced_at integer NOT NULL                      -- of the page before
) STRICT;
-- An account's jobs, newest first.
CREATE INDEX jobs_by_account ON jobs (account, id);
-- Those that have something left to send.
CREATE INDEX jobs_sending ON jobs (account, advanced_at) WHERE NOT all_sent AND NOT cancelled;
-- The retention.
CREATE INDEX jobs_by_age ON jobs (created_at);

-- What a job has sent and no attempt has answered yet.
CREATE TABLE job_deliveries (
    delivery_id text NOT NULL,
    job_id      text NOT NULL,
    day         integer NOT NULL,
    rev         integer NOT NULL,                     -- an answer has a greater one
    PRIMARY KEY (delivery_id, job_id)
) STRICT, WITHOUT ROWID;
-- The retention.
CREATE INDEX job_deliveries_by_day ON job_deliveries (day);
