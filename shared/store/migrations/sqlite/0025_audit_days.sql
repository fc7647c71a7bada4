-- +goose Up

-- How many entries of the audit log an account has of a day, so that a list need not count them: of those that are
-- counted. The rest is that of the last hour.
CREATE TABLE audit_days (
    account text NOT NULL,
    day     integer NOT NULL,
    action  text NOT NULL,
    sub     text NOT NULL,
    success integer NOT NULL,
    entries integer NOT NULL,
    PRIMARY KEY (account, day, action, sub, success)
) STRICT, WITHOUT ROWID;
-- The purge.
CREATE INDEX audit_days_by_age ON audit_days (day);

ALTER TABLE audit_log ADD COLUMN counted integer NOT NULL DEFAULT 0;
CREATE INDEX audit_log_uncounted ON audit_log (account, at) WHERE NOT counted;

-- What lists are filtered by.
CREATE INDEX audit_log_by_action ON audit_log (account, action, at, id);
CREATE INDEX audit_log_by_actor ON audit_log (account, sub, at, id);
CREATE INDEX audit_log_by_outcome ON audit_log (account, success, at, id);
