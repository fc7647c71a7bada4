-- +goose Up

-- In which order events were committed: the commit that added the event, and the event's
-- place in its request. One commit follows the other here: docs/decisions/0039. What was
-- there before counts as added by one commit before all others.
ALTER TABLE events ADD COLUMN xact integer NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN place integer NOT NULL DEFAULT 0; -- below 0: a test, in no feed
-- An account's events of one type in the order of commits.
CREATE INDEX events_by_commit ON events (account, type, xact, received_at);

-- One row: the last commit that added events.
CREATE TABLE feed_order (
    id   integer PRIMARY KEY CHECK (id = 1),
    xact integer NOT NULL
);
INSERT INTO feed_order (id, xact) VALUES (1, 0);

-- How far a receiver has read a webhook's feed, by its own word.
CREATE TABLE webhook_cursors (
    webhook_id text NOT NULL,
    name       text NOT NULL,
    account    text NOT NULL,
    cursor     text NOT NULL,
    updated_at integer NOT NULL,
    PRIMARY KEY (webhook_id, name)
);

-- When the webhook last went from pull to push; NULL: never. What was accepted before is in
-- its feed, and not sent.
ALTER TABLE webhooks ADD COLUMN pushed_since integer;
