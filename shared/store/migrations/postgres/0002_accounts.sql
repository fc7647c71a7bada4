-- +goose Up

-- seq in these tables is the order of insertion: what was made in the same millisecond is
-- listed in that order.

CREATE TABLE accounts (
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_at timestamptz NOT NULL
);
INSERT INTO accounts (id, name, created_at)
VALUES ('acct_00000000000000000default', 'default', date_trunc('milliseconds', now()));

CREATE TABLE projects (
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" PRIMARY KEY,
    account    text COLLATE "C" NOT NULL REFERENCES accounts (name),
    name       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (account, name)
);
-- The list of an account's projects.
CREATE INDEX projects_by_account ON projects (account, created_at, seq);

-- tags are lines, a JSON array of name and value each, with a line break before and after:
-- whether a pair is among them is a search for its line.
CREATE TABLE key_buckets (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" PRIMARY KEY,
    account     text COLLATE "C" NOT NULL REFERENCES accounts (name),
    name        text COLLATE "C" NOT NULL,
    description text NOT NULL,
    tags        text COLLATE "C" NOT NULL,
    retrievable boolean NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    UNIQUE (account, name)
);
-- The list of an account's buckets.
CREATE INDEX key_buckets_by_account ON key_buckets (account, created_at, seq);

CREATE TABLE key_consumers (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" PRIMARY KEY,
    bucket_id   text COLLATE "C" NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    description text NOT NULL,
    tags        text COLLATE "C" NOT NULL,
    metadata    text NOT NULL,                 -- a JSON object as it was sent; empty: none
    scopes      text NOT NULL,                 -- comma separated
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    UNIQUE (bucket_id, name)
);
-- The list of a bucket's consumers.
CREATE INDEX key_consumers_by_bucket ON key_consumers (bucket_id, created_at, seq);

CREATE TABLE api_keys (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" PRIMARY KEY,
    consumer_id text COLLATE "C" NOT NULL REFERENCES key_consumers (id) ON DELETE CASCADE,
    description text NOT NULL,
    expires_at  timestamptz,
    suffix      text NOT NULL,                 -- the checksum, which is shown
    hash        bytea NOT NULL UNIQUE,         -- HMAC; the look-up of each request
    sealed      bytea,                         -- the key; NULL: it can't be shown again
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
-- The list of a consumer's keys.
CREATE INDEX api_keys_by_consumer ON api_keys (consumer_id, created_at, seq);

CREATE TABLE key_managers (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" PRIMARY KEY,
    consumer_id text COLLATE "C" NOT NULL REFERENCES key_consumers (id) ON DELETE CASCADE,
    email       text NOT NULL,
    sub         text NOT NULL,
    created_at  timestamptz NOT NULL
);
-- The list of a consumer's managers.
CREATE INDEX key_managers_by_consumer ON key_managers (consumer_id, created_at, seq);

CREATE TABLE audit_log (
    id         text COLLATE "C" PRIMARY KEY,   -- a time-ordered UUID
    at         timestamptz NOT NULL,
    account    text COLLATE "C" NOT NULL,
    action     text NOT NULL,
    sub        text NOT NULL,
    type       text NOT NULL,
    key_id     text NOT NULL,
    request_id text NOT NULL,
    address    text NOT NULL,
    user_agent text NOT NULL,
    method     text NOT NULL,
    route      text NOT NULL,
    resources  text NOT NULL,                  -- a JSON array
    success    boolean NOT NULL,
    error      text NOT NULL
);
-- An account's entries, newest first.
CREATE INDEX audit_log_by_account ON audit_log (account, at, id);
-- The purge.
CREATE INDEX audit_log_by_age ON audit_log (at);
