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
