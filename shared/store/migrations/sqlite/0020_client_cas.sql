-- +goose Up

-- The certificates of authorities whose clients an account lets in. The api writes them. A
-- removed one stays for a day, so that gateways learn of it.
CREATE TABLE gateway_client_cas (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    account     text NOT NULL REFERENCES accounts (name),
    name        text NOT NULL,
    certificate blob NOT NULL,                       -- DER
    expires_at  integer NOT NULL,                    -- when the certificate ends
    version     integer NOT NULL,                    -- gateway_version at the last change that gateways must see
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL,
    removed_at  integer
) STRICT;
CREATE UNIQUE INDEX gateway_client_cas_by_name ON gateway_client_cas (account, name) WHERE removed_at IS NULL;
CREATE INDEX gateway_client_cas_by_account ON gateway_client_cas (account, created_at, seq) WHERE removed_at IS NULL;
CREATE INDEX gateway_client_cas_by_end ON gateway_client_cas (expires_at) WHERE removed_at IS NULL;
CREATE INDEX gateway_client_cas_by_version ON gateway_client_cas (version);
