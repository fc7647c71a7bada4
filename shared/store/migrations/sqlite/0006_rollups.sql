-- +goose Up

-- What was counted and is not merged into rollups yet: a row for each transaction that
-- accepted events (by account and type) or recorded attempts (counts, in the form of the
-- package rollup).
CREATE TABLE rollup_deltas (
    id         integer PRIMARY KEY,
    account    text NOT NULL,                         -- empty: counts says whose
    event_type text NOT NULL,
    minute     integer NOT NULL,
    events     integer NOT NULL,
    counts     blob
) STRICT;

-- Counts of a minute, an hour and a day, merged from the deltas: of each webhook, and
-- (webhook_id empty) of the account. Class is empty in the rows of accepted events.
CREATE TABLE rollups (
    account    text NOT NULL,
    webhook_id text NOT NULL,
    step       integer NOT NULL,                      -- minutes
    start      integer NOT NULL,
    event_type text NOT NULL,
    class      text NOT NULL,
    events     integer NOT NULL,
    deliveries integer NOT NULL,                      -- first attempts
    attempts   integer NOT NULL,
    last_at    integer,                               -- when the last attempt ended
    latency    blob NOT NULL,                         -- a histogram, in the form of the package rollup
    PRIMARY KEY (account, webhook_id, step, start, event_type, class)
) STRICT, WITHOUT ROWID;
-- The purge.
CREATE INDEX rollups_by_age ON rollups (start);

-- The circuit of each webhook that has failed, as the dispatcher that owns it last said.
CREATE TABLE webhook_circuits (
    webhook_id    text NOT NULL PRIMARY KEY,
    open_since    integer,                            -- NULL: it is closed
    failures      integer NOT NULL,                   -- in a row
    failing_since integer,                            -- the first of them
    next_probe_at integer,
    said_at       integer NOT NULL,
    answer_at     integer,                            -- of the last failed attempt
    answer_class  text NOT NULL,
    answer_status integer NOT NULL,                   -- 0: no answer
    answer_body   text NOT NULL                       -- its beginning
) STRICT;
-- What a dispatcher looks for when it becomes a webhook's owner.
CREATE INDEX webhook_circuits_failing ON webhook_circuits (webhook_id) WHERE failures > 0;

-- How many deliveries of a webhook wait, are held and are scheduled: nothing on the good path.
CREATE INDEX deliveries_waiting ON deliveries (webhook_id, in_lane, status) WHERE status IN ('pending', 'retrying', 'held');
