-- +goose Up
-- This index replaces deliveries_waiting. For each lane and status, the oldest delivery comes first.
CREATE INDEX deliveries_oldest ON deliveries (webhook_id, in_lane, status, id) WHERE status IN ('pending', 'retrying', 'held');
DROP INDEX deliveries_waiting;
