-- +goose Up

-- Builds whose gateway has gone, and the open builds of an account.
CREATE INDEX gateway_builds_leased ON gateway_builds (lease_until) WHERE status = 'BUILDING';
CREATE INDEX gateway_builds_by_account ON gateway_builds (account) WHERE status IN ('QUEUED', 'BUILDING');
CREATE INDEX gateway_deployments_by_account ON gateway_deployments (account, created_at, seq) WHERE removed_at IS NULL;

-- What a purge ends.
CREATE INDEX gateway_deployments_removed ON gateway_deployments (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX gateway_domains_removed ON gateway_domains (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX gateway_tunnels_removed ON gateway_tunnels (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX gateway_client_cas_removed ON gateway_client_cas (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX gateway_tunnel_tokens_by_end ON gateway_tunnel_tokens (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX gateway_acme_locks_by_end ON gateway_acme_locks (expires_at);
CREATE INDEX gateway_writers_by_age ON gateway_writers (written_at);

-- Whose consumers a person manages.
CREATE INDEX key_managers_by_sub ON key_managers (sub) WHERE sub <> '';
CREATE INDEX key_managers_by_email ON key_managers (lower(email));
