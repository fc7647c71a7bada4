-- +goose Up

-- What ends soon. When the certificate of a webhook's auth ends lies beside it in the clear, and
-- the end of a receiver's certificate where dispatchers say how the receiver does: NULL unless
-- it ends within 14 days. It is that of a receiver at the webhook's present URL if
-- certificate_version is at least url_version.
ALTER TABLE webhooks
    ADD COLUMN auth_expires_at timestamptz,
    ADD COLUMN url_version bigint NOT NULL DEFAULT 0;
ALTER TABLE webhook_health
    ADD COLUMN certificate_expires_at timestamptz,
    ADD COLUMN certificate_version bigint NOT NULL DEFAULT 0;

-- What ends in a span of time.
CREATE INDEX webhook_health_expiring ON webhook_health (certificate_expires_at) WHERE certificate_expires_at IS NOT NULL;
CREATE INDEX webhooks_auth_expiring ON webhooks (auth_expires_at) WHERE auth_expires_at IS NOT NULL;
CREATE INDEX webhooks_secret_expiring ON webhooks (previous_secret_expires_at) WHERE previous_secret_expires_at IS NOT NULL;
CREATE INDEX signing_keys_expiring ON signing_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;
