-- +goose Up

-- How many entries of the audit log an account has of a day, so that a list need not count them: of those that are
-- counted. The rest is that of the last hour.
CREATE TABLE audit_days (
    account text COLLATE "C" NOT NULL,
    day     date NOT NULL,
    action  text COLLATE "C" NOT NULL,
    sub     text COLLATE "C" NOT NULL,
    success boolean NOT NULL,
    entries bigint NOT NULL,
    PRIMARY KEY (account, day, action, sub, success)
) WITH (fillfactor = 80);
-- The purge.
CREATE INDEX audit_days_by_age ON audit_days (day);

ALTER TABLE audit_log ADD COLUMN counted boolean NOT NULL DEFAULT false;
