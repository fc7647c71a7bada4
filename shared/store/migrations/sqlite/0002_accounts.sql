-- +goose Up

-- seq in these tables is the order of insertion: what was made in the same millisecond is
-- listed in that order.

CREATE TABLE accounts (
    seq        integer PRIMARY KEY,
    id         text NOT NULL UNIQUE,
    name       text NOT NULL UNIQUE,
    created_at integer NOT NULL
) STRICT;
INSERT INTO accounts (id, name, created_at)
VALUES ('acct_00000000000000000default', 'default', CAST(round(unixepoch('subsec') * 1000) AS integer) * 1000);

CREATE TABLE projects (
    seq        integer PRIMARY KEY,
    id         text NOT NULL UNIQUE,
    account    text NOT NULL REFERENCES accounts (name),
    name       text NOT NULL,
    created_at integer NOT NULL,
    UNIQUE (account, name)
) STRICT;
-- The list of an account's projects.
CREATE INDEX projects_by_account ON projects (account, created_at, seq);

-- tags are lines, a JSON array of name and value each, with a line break before and after:
-- whether a pair is among them is a search for its line.
CREATE TABLE key_buckets (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    account     text NOT NULL REFERENCES accounts (name),
    name        text NOT NULL,
    description text NOT NULL,
    tags        text NOT NULL,
    retrievable integer NOT NULL,
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL,
    UNIQUE (account, name)
) STRICT;
-- The list of an account's buckets.
CREATE INDEX key_buckets_by_account ON key_buckets (account, created_at, seq);

CREATE TABLE key_consumers (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    bucket_id   text NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    name        text NOT NULL,
    description text NOT NULL,
    tags        text NOT NULL,
    metadata    text NOT NULL,                 -- a JSON object as it was sent; empty: none
    scopes      text NOT NULL,                 -- comma separated
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL,
    UNIQUE (bucket_id, name)
) STRICT;
-- The list of a bucket's consumers.
CREATE INDEX key_consumers_by_bucket ON key_consumers (bucket_id, created_at, seq);

CREATE TABLE api_keys (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    consumer_id text NOT NULL REFERENCES key_consumers (id) ON DELETE CASCADE,
    description text NOT NULL,
    expires_at  integer,
    suffix      text NOT NULL,                 -- the checksum, which is shown
    hash        blob NOT NULL UNIQUE,          -- HMAC; the look-up of each request
    sealed      blob,                          -- the key; NULL: it can't be shown again
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL
) STRICT;
-- The list of a consumer's keys.
CREATE INDEX api_keys_by_consumer ON api_keys (consumer_id, created_at, seq);

CREATE TABLE key_managers (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    consumer_id text NOT NULL REFERENCES key_consumers (id) ON DELETE CASCADE,
    email       text NOT NULL,
    sub         text NOT NULL,
    created_at  integer NOT NULL
) STRICT;
-- The list of a consumer's managers.
CREATE INDEX key_managers_by_consumer ON key_managers (consumer_id, created_at, seq);

CREATE TABLE audit_log (
    id         text NOT NULL PRIMARY KEY,      -- a time-ordered UUID
    at         integer NOT NULL,
    account    text NOT NULL,
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
    success    integer NOT NULL,
    error      text NOT NULL
) STRICT;
-- An account's entries, newest first.
CREATE INDEX audit_log_by_account ON audit_log (account, at, id);
-- The purge.
CREATE INDEX audit_log_by_age ON audit_log (at);
