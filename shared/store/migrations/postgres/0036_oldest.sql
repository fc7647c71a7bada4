-- +goose Up
-- Migration 35 has built deliveries_oldest, which serves all queries of this index.
DROP INDEX deliveries_waiting;
