-- +goose Up

-- Accounts that have, or had, a webhook with ordering. The row's lock orders their commits:
-- each takes the next places for its events.
CREATE TABLE ordering_accounts (
    account    text NOT NULL PRIMARY KEY,
    last_place integer NOT NULL
) STRICT, WITHOUT ROWID;

-- From which message of EVENTS on the order stage handles the events of an account that were
-- published on NATS. Those of REST that have a place are always its.
CREATE TABLE ordering_starts (
    account        text NOT NULL PRIMARY KEY,
    stream_created integer NOT NULL,
    from_sequence  integer NOT NULL
) STRICT, WITHOUT ROWID;

-- The last Waybill-Sequence of a webhook and shipment, and the last whose delivery did not arrive (0: none).
CREATE TABLE webhook_sequences (
    webhook_id text NOT NULL,
    shipment   integer NOT NULL,
    sequence   integer NOT NULL,
    missed     integer NOT NULL,
    updated_at integer NOT NULL,
    PRIMARY KEY (webhook_id, shipment)
) STRICT, WITHOUT ROWID;
-- The purge.
CREATE INDEX webhook_sequences_by_age ON webhook_sequences (updated_at);

ALTER TABLE deliveries ADD COLUMN sequence integer;       -- NULL: its webhook has no order
ALTER TABLE outbox ADD COLUMN place integer;              -- NULL: its account has no order
-- The events whose places the order stage misses.
CREATE INDEX outbox_by_place ON outbox (account, place) WHERE place IS NOT NULL;
