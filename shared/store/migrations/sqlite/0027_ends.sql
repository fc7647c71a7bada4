-- +goose Up

-- What of an account's webhooks ends soon.
CREATE INDEX webhooks_auth_ends ON webhooks (account, auth_expires_at) WHERE auth_expires_at IS NOT NULL;
CREATE INDEX webhooks_secret_ends ON webhooks (account, previous_secret_expires_at) WHERE previous_secret_expires_at IS NOT NULL;
-- What a purge ends.
CREATE INDEX requests_by_day ON requests (day);
-- Tests that have been asked for: they have no delivery yet, and are listed beside those.
CREATE INDEX requests_tests ON requests (account, delivery_id) WHERE kind = 'test';
-- The deployments of a branch.
CREATE INDEX gateway_deployments_by_branch ON gateway_deployments (account, project, branch, created_at, seq) WHERE removed_at IS NULL;
