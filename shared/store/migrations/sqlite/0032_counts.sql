-- +goose Up

-- How many an account has of a kind, and bytes of archives, against its limits. A row comes with the first change
-- after this migration, which counts what is there: so nobody waits for it here.
CREATE TABLE account_counts (
    account    text NOT NULL,
    kind       text NOT NULL,               -- projects, buckets, consumers, keys, managers, variables, sources
    n          integer NOT NULL,
    counted_at integer NOT NULL,            -- when n was last counted, and not added to
    PRIMARY KEY (account, kind)
) STRICT;
-- What is to be counted again.
CREATE INDEX account_counts_by_age ON account_counts (kind, counted_at);
