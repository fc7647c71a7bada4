-- +goose Up

-- How much an account keeps of archives.
CREATE INDEX gateway_sources_by_account ON gateway_sources (account, size) WHERE size > 0;
-- When the last build of the archive failed, as long as none has succeeded: it goes a day later.
ALTER TABLE gateway_sources ADD COLUMN failed_at timestamptz;
CREATE INDEX gateway_sources_failed ON gateway_sources (failed_at) WHERE failed_at IS NOT NULL;
