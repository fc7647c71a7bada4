-- +goose Up

-- How often a change was refused: what one key is refused for the same reason within a minute
-- is one entry.
ALTER TABLE audit_log ADD COLUMN count bigint NOT NULL DEFAULT 1;
