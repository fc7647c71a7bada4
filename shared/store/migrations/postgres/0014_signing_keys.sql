-- +goose Up

-- The Ed25519 keys of accounts, which sign callbacks by v1a.
CREATE TABLE signing_keys (
    id          text COLLATE "C" PRIMARY KEY,              -- a time-ordered UUID
    account     text COLLATE "C" NOT NULL,
    public_key  bytea NOT NULL,                           -- 32 bytes
    private_key bytea NOT NULL,                           -- sealed
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz                               -- end of the overlap; NULL: it is the present key
);
-- An account has one present key, whoever makes the first one at the same time.
CREATE UNIQUE INDEX signing_keys_present ON signing_keys (account) WHERE expires_at IS NULL;
CREATE INDEX signing_keys_by_account ON signing_keys (account, id);
