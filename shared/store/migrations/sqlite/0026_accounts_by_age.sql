-- +goose Up

-- The list of accounts.
CREATE INDEX accounts_by_age ON accounts (created_at, seq);
