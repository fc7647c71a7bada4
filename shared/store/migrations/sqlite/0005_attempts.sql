-- +goose Up

-- How an attempt ended; NULL: as its status says.
ALTER TABLE attempts ADD COLUMN class text;
-- The last attempt's; NULL: none was made, or it is the one in the row and was answered
-- with 2xx, as on the good path.
ALTER TABLE deliveries ADD COLUMN last_class text;
ALTER TABLE deliveries ADD COLUMN last_status integer;
ALTER TABLE deliveries ADD COLUMN attempt_class text;
