-- +goose Up

-- Who is signed in to the console. kind: session; link, a code that makes one session; choice,
-- a person who has signed in and is to choose for whom. The id is public; of what a browser
-- holds only the SHA-256 is here.
CREATE TABLE console_sessions (
    id         text COLLATE "C" PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE,
    kind       text NOT NULL,
    account    text COLLATE "C" NOT NULL,      -- empty: a choice
    key_id     text COLLATE "C" NOT NULL,      -- of an API key; empty: the bootstrap key, or a manager
    manager_id text COLLATE "C" NOT NULL,      -- of a manager; empty: a key
    proof      text NOT NULL,      -- what is to be unchanged of the key
    person     text NOT NULL,      -- sub and email as the identity provider says them
    created_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    address    text NOT NULL,
    user_agent text NOT NULL
);
-- The purge.
CREATE INDEX console_sessions_by_end ON console_sessions (expires_at);
-- The sessions of one key.
CREATE INDEX console_sessions_by_key ON console_sessions (account, key_id, manager_id);

-- The console's session by which a change came; empty: by a key alone.
ALTER TABLE audit_log ADD COLUMN session text NOT NULL DEFAULT '';
