-- +goose Up

-- What alerts have told of a webhook: nothing of one that never failed.
CREATE TABLE webhook_alerts (
    webhook_id text COLLATE "C" PRIMARY KEY,
    failing    boolean NOT NULL,             -- that it fails was told; until it recovers
    opened     boolean NOT NULL,             -- and that its circuit opened
    minute     timestamptz,                  -- in which exhausted deliveries were last told of
    told       bigint NOT NULL,              -- how many of them in that minute
    left_out   bigint NOT NULL,              -- how many were not, since the last one that was
    updated_at timestamptz NOT NULL
);

-- Who is told in an account.
CREATE INDEX webhooks_alerted ON webhooks (account) WHERE events LIKE '%waybill.%';

-- What dispatchers have made and nobody has published yet (relayed is -1).
CREATE INDEX outbox_unpublished ON outbox (received_at, account, id) WHERE relayed < 0;
