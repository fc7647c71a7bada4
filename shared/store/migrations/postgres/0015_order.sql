-- +goose Up

-- Accounts that have, or had, a webhook with ordering. The row's lock orders their commits:
-- each takes the next places for its events.
CREATE TABLE ordering_accounts (
    account    text COLLATE "C" PRIMARY KEY,
    last_place bigint NOT NULL
) WITH (fillfactor = 50);

-- From which message of EVENTS on the order stage handles the events of an account that were
-- published on NATS. Those of REST that have a place are always its.
CREATE TABLE ordering_starts (
    account        text COLLATE "C" PRIMARY KEY,
    stream_created timestamptz NOT NULL,
    from_sequence  bigint NOT NULL
) WITH (fillfactor = 50);

-- The last Waybill-Sequence of a webhook and shipment, and the last whose delivery did not arrive (0: none).
CREATE TABLE webhook_sequences (
    webhook_id text COLLATE "C" NOT NULL,
    shipment   bigint NOT NULL,
    sequence   bigint NOT NULL,
    missed     bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (webhook_id, shipment)
) WITH (fillfactor = 80);
-- The purge.
CREATE INDEX webhook_sequences_by_age ON webhook_sequences (updated_at);

ALTER TABLE deliveries ADD COLUMN sequence bigint;        -- NULL: its webhook has no order
ALTER TABLE outbox ADD COLUMN place bigint;               -- NULL: its account has no order
-- The events whose places the order stage misses.
CREATE INDEX outbox_by_place ON outbox (account, place) WHERE place IS NOT NULL;
