-- +goose Up

-- A hostname of a user's own that leads to a deployment. The api makes it, and looks in DNS
-- whether the account has it. Several accounts may wait for one hostname, and one has it. A removed
-- one stays for a day, so that gateways learn of it.
CREATE TABLE gateway_domains (
    seq           integer PRIMARY KEY,
    id            text NOT NULL UNIQUE,
    account       text NOT NULL REFERENCES accounts (name),
    hostname      text NOT NULL,                       -- in lower case, as in DNS
    deployment    text NOT NULL,                       -- empty: none
    is_default    integer NOT NULL,                    -- of its deployment
    token         text NOT NULL,                       -- the value of the TXT record
    answers       text NOT NULL,                       -- what DNS answered last, JSON; empty: it was not asked
    version       integer NOT NULL,                    -- gateway_version at the last change that gateways must see
    created_by    text NOT NULL,                       -- sub of the caller that made it
    created_key   text NOT NULL,                       -- id of its key
    created_at    integer NOT NULL,
    updated_at    integer NOT NULL,
    verified_at   integer,                             -- since when the account has the hostname; NULL: it waits
    checked_at    integer,                             -- when DNS was asked last
    next_check_at integer,                             -- when it is asked next; NULL: not by itself
    removed_at    integer
) STRICT;
CREATE UNIQUE INDEX gateway_domains_by_name ON gateway_domains (account, hostname) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX gateway_domains_verified ON gateway_domains (hostname) WHERE verified_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX gateway_domains_by_account ON gateway_domains (account, created_at, seq) WHERE removed_at IS NULL;
CREATE INDEX gateway_domains_by_deployment ON gateway_domains (deployment) WHERE removed_at IS NULL;
CREATE INDEX gateway_domains_by_version ON gateway_domains (version);
CREATE INDEX gateway_domains_by_check ON gateway_domains (next_check_at) WHERE next_check_at IS NOT NULL;

-- Certificates that users have uploaded for their hostnames.
CREATE TABLE gateway_domain_certificates (
    domain_id     text NOT NULL PRIMARY KEY REFERENCES gateway_domains (id) ON DELETE CASCADE,
    chain         text NOT NULL,                       -- PEM
    private_key   blob NOT NULL,                       -- sealed
    fingerprint   text NOT NULL,                       -- of the first certificate: SHA-256
    not_after     integer NOT NULL,
    created_at    integer NOT NULL
) STRICT;
CREATE INDEX gateway_domain_certificates_by_end ON gateway_domain_certificates (not_after);

-- What gateways keep of their work with a certificate authority: its account, orders that are open,
-- certificates and their keys.
CREATE TABLE gateway_acme (
    key         text NOT NULL PRIMARY KEY,
    value       blob NOT NULL,                         -- sealed
    modified_at integer NOT NULL
) STRICT;

-- Who is at work with something of that. A lock is renewed, or ends.
CREATE TABLE gateway_acme_locks (
    name       text NOT NULL PRIMARY KEY,
    owner      text NOT NULL,
    expires_at integer NOT NULL
) STRICT;

-- What became of the certificate of a hostname that a gateway asks the authority for.
CREATE TABLE gateway_acme_states (
    hostname   text NOT NULL PRIMARY KEY,
    not_after  integer,                                -- end of the newest certificate; NULL: there is none
    error      text NOT NULL,                          -- why the last order failed; empty: it did not
    failures   integer NOT NULL,                       -- in a row
    retry_at   integer,                                -- before then nobody orders again
    updated_at integer NOT NULL
) STRICT;
CREATE INDEX gateway_acme_states_by_end ON gateway_acme_states (not_after) WHERE not_after IS NOT NULL;
