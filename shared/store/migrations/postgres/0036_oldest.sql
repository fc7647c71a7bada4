-- +goose Up
-- Migration 35 has built deliveries_oldest, which serves whatever this did.
DROP INDEX deliveries_waiting;
