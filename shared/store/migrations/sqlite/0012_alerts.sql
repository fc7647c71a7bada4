-- +goose Up

-- What alerts have told of a webhook: nothing of one that never failed.
CREATE TABLE webhook_alerts (
    webhook_id text NOT NULL PRIMARY KEY,
    failing    integer NOT NULL,             -- that it fails was told; until it recovers
    opened     integer NOT NULL,             -- and that its circuit opened
    minute     integer,                      -- in which exhausted deliveries were last told of
    told       integer NOT NULL,             -- how many of them in that minute
    left_out   integer NOT NULL,             -- how many were not, since the last one that was
    updated_at integer NOT NULL
) STRICT;

-- Who is told in an account.
CREATE INDEX webhooks_alerted ON webhooks (account) WHERE events LIKE '%waybill.%';

-- What dispatchers have made and nobody has published yet (relayed is -1).
CREATE INDEX outbox_unpublished ON outbox (received_at, account, id) WHERE relayed < 0;
