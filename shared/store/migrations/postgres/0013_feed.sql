-- +goose Up

-- In which order events were committed: the transaction that added the event, and the event's
-- place in its request. A reader who looks only at transactions below the oldest that still
-- runs misses none: docs/decisions/0039. What was there before counts as added by one
-- transaction before all others.
ALTER TABLE events
    ADD COLUMN xact bigint NOT NULL DEFAULT 0,
    ADD COLUMN place integer NOT NULL DEFAULT 0;          -- below 0: a test, in no feed
ALTER TABLE events ALTER COLUMN xact SET DEFAULT txid_current();

-- One row: what is added to the ids of transactions. After a restore from a dump they begin
-- anew, and what is added keeps the order.
CREATE TABLE feed_order (
    id   smallint PRIMARY KEY CHECK (id = 1),
    xact bigint NOT NULL
);
INSERT INTO feed_order (id, xact) VALUES (1, 0);

-- How far a receiver has read a webhook's feed, by its own word.
CREATE TABLE webhook_cursors (
    webhook_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    account    text COLLATE "C" NOT NULL,
    cursor     text COLLATE "C" NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (webhook_id, name)
);

-- When the webhook last went from pull to push; NULL: never. What was accepted before is in
-- its feed, and not sent.
ALTER TABLE webhooks ADD COLUMN pushed_since timestamptz;
