-- +goose Up

-- How an attempt ended; NULL: as its status says. The rest of what was sent and came back is
-- one text of bytes, of some 250, that shared/transcript reads.
ALTER TABLE attempts
    ADD COLUMN class text COLLATE "C",
    ADD COLUMN transcript bytea;
-- The last attempt's; NULL: none was made, or it is the one in the row and was answered
-- with 2xx, as on the good path.
ALTER TABLE deliveries
    ADD COLUMN last_class text COLLATE "C",
    ADD COLUMN last_status integer,
    ADD COLUMN attempt_class text COLLATE "C",
    ADD COLUMN attempt_transcript bytea;

-- What did not end well by how its last attempt ended, and by its reason; and the tests.
-- Nothing of it on the good path.
CREATE INDEX deliveries_by_class ON deliveries (account, last_class, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_by_answer ON deliveries (account, last_status, id) WHERE status <> 'delivered';
CREATE INDEX deliveries_by_reason ON deliveries (account, reason, id) WHERE status <> 'delivered' AND reason <> '';
CREATE INDEX deliveries_tests ON deliveries (account, id) WHERE test;

-- How an event came, and the key of the shipment that it is about (domain.ShipmentKey). Of
-- what was accepted before, neither is known: it counts as published over REST.
ALTER TABLE events
    ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT 'rest',
    ADD COLUMN shipment bigint;
DROP INDEX events_by_time;
-- An account's events of one type and source, newest first; a list of all merges them. A
-- commit gives all its events one time, so the index stays small and ties are sorted.
CREATE INDEX events_by_time ON events (account, type, source, received_at);
-- Processor time of Postgres for an event, in commits of 500: 12 µs without this index, 3 more
-- with it, 7 more with the text of the shipment in it.
CREATE INDEX events_by_shipment ON events (shipment, received_at);
