-- Each statement by itself, so that none keeps its lock while the next one waits for another table.
-- +goose NO TRANSACTION
-- +goose Up

-- How an attempt ended; NULL: as its status says. The rest of what was sent and came back is
-- one text of bytes, of some 250, that shared/transcript reads.
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS class text COLLATE "C",
    ADD COLUMN IF NOT EXISTS transcript bytea;
-- The last attempt's; NULL: none was made, or it is the one in the row and was answered
-- with 2xx, as on the good path.
ALTER TABLE deliveries
    ADD COLUMN IF NOT EXISTS last_class text COLLATE "C",
    ADD COLUMN IF NOT EXISTS last_status integer,
    ADD COLUMN IF NOT EXISTS attempt_class text COLLATE "C",
    ADD COLUMN IF NOT EXISTS attempt_transcript bytea;

-- How an event came, and the key of the shipment that it is about (domain.ShipmentKey). Of
-- what was accepted before, neither is known: it counts as published over REST.
ALTER TABLE events
    ADD COLUMN IF NOT EXISTS source text COLLATE "C" NOT NULL DEFAULT 'rest',
    ADD COLUMN IF NOT EXISTS shipment bigint;
-- What a list of an account's events is sorted by is another index from now on. The indexes of the tables of
-- the log are built later, in a step of their own: shared/store/indexes.go.
DROP INDEX IF EXISTS events_by_time;
