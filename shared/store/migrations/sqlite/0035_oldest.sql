-- +goose Up
-- In each way to wait, the oldest first.
CREATE INDEX deliveries_oldest ON deliveries (webhook_id, in_lane, status, id) WHERE status IN ('pending', 'retrying', 'held');
DROP INDEX deliveries_waiting;
