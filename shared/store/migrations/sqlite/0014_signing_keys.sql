-- +goose Up

-- The Ed25519 keys of accounts, which sign callbacks by v1a.
CREATE TABLE signing_keys (
    id          text NOT NULL PRIMARY KEY,            -- a time-ordered UUID
    account     text NOT NULL,
    public_key  blob NOT NULL,                        -- 32 bytes
    private_key blob NOT NULL,                        -- sealed
    created_at  integer NOT NULL,
    expires_at  integer                               -- end of the overlap; NULL: it is the present key
) STRICT;
-- An account has one present key, whoever makes the first one at the same time.
CREATE UNIQUE INDEX signing_keys_present ON signing_keys (account) WHERE expires_at IS NULL;
CREATE INDEX signing_keys_by_account ON signing_keys (account, id);
