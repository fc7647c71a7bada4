-- +goose Up
-- Dispatchers look twice a second for cancelled jobs of which something was handed over and has had no attempt yet.
DROP INDEX jobs_cancelled;
CREATE INDEX jobs_cancelled ON jobs (id) WHERE cancelled AND sent > delivered + failed;
