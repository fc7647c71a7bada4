-- +goose Up

-- A hostname of a user's own that leads to a deployment. The api makes it, and looks in DNS
-- whether the account has it. Several accounts may wait for one hostname, and one has it. A removed
-- one stays for a day, so that gateways learn of it.
CREATE TABLE gateway_domains (
    seq           bigint GENERATED ALWAYS AS IDENTITY,
    id            text COLLATE "C" PRIMARY KEY,
    account       text COLLATE "C" NOT NULL REFERENCES accounts (name),
    hostname      text COLLATE "C" NOT NULL,           -- in lower case, as in DNS
    deployment    text COLLATE "C" NOT NULL,           -- empty: none
    is_default    boolean NOT NULL,                    -- of its deployment
    token         text NOT NULL,                       -- the value of the TXT record
    answers       text NOT NULL,                       -- what DNS answered last, JSON; empty: it was not asked
    version       bigint NOT NULL,                     -- gateway_version at the last change that gateways must see
    created_by    text NOT NULL,                       -- sub of the caller that made it
    created_key   text NOT NULL,                       -- id of its key
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    verified_at   timestamptz,                         -- since when the account has the hostname; NULL: it waits
    checked_at    timestamptz,                         -- when DNS was asked last
    next_check_at timestamptz,                         -- when it is asked next; NULL: not by itself
    removed_at    timestamptz
);
CREATE UNIQUE INDEX gateway_domains_by_name ON gateway_domains (account, hostname) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX gateway_domains_verified ON gateway_domains (hostname) WHERE verified_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX gateway_domains_by_account ON gateway_domains (account, created_at, seq) WHERE removed_at IS NULL;
CREATE INDEX gateway_domains_by_deployment ON gateway_domains (deployment) WHERE removed_at IS NULL;
CREATE INDEX gateway_domains_by_version ON gateway_domains (version);
CREATE INDEX gateway_domains_by_check ON gateway_domains (next_check_at) WHERE next_check_at IS NOT NULL;

-- Certificates that users have uploaded for their hostnames.
CREATE TABLE gateway_domain_certificates (
    domain_id     text COLLATE "C" PRIMARY KEY REFERENCES gateway_domains (id) ON DELETE CASCADE,
    chain         text NOT NULL,                       -- PEM
    private_key   bytea NOT NULL,                      -- sealed
    fingerprint   text NOT NULL,                       -- of the first certificate: SHA-256
    not_after     timestamptz NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE INDEX gateway_domain_certificates_by_end ON gateway_domain_certificates (not_after);

-- What gateways keep of their work with a certificate authority: its account, orders that are open,
-- certificates and their keys.
CREATE TABLE gateway_acme (
    key         text COLLATE "C" PRIMARY KEY,
    value       bytea NOT NULL,                         -- sealed
    modified_at timestamptz NOT NULL
);

-- Who is at work with something of that. A lock is renewed, or ends.
CREATE TABLE gateway_acme_locks (
    name       text COLLATE "C" PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL
);

-- What became of the certificate of a hostname that a gateway asks the authority for.
CREATE TABLE gateway_acme_states (
    hostname   text COLLATE "C" PRIMARY KEY,
    not_after  timestamptz,                            -- end of the newest certificate; NULL: there is none
    error      text NOT NULL,                          -- why the last order failed; empty: it did not
    failures   bigint NOT NULL,                       -- in a row
    retry_at   timestamptz,                                -- before then nobody orders again
    updated_at timestamptz NOT NULL
);
CREATE INDEX gateway_acme_states_by_end ON gateway_acme_states (not_after) WHERE not_after IS NOT NULL;
