-- +goose Up

-- What is counted in a bucket, and by what. The api writes meters, features, plans and
-- subscriptions; gateways and the record stage read them.
CREATE TABLE meters (
    seq            integer PRIMARY KEY,
    id             text NOT NULL UNIQUE,
    bucket_id      text NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    slug           text NOT NULL,
    name           text NOT NULL,
    description    text NOT NULL,
    metadata       text NOT NULL,                      -- a JSON object; empty: none
    aggregation    text NOT NULL,                      -- COUNT, SUM
    event_type     text NOT NULL,
    event_from     integer,                        -- earlier events don't count; NULL: all count
    value_property text NOT NULL,                      -- of SUM: what is summed
    group_by       text NOT NULL,                      -- a JSON object; empty: none
    created_at     integer NOT NULL,
    updated_at     integer NOT NULL,
    UNIQUE (bucket_id, slug)
) STRICT;
-- Whether deliveries are counted for the consumers of a bucket.
CREATE INDEX meters_by_event_type ON meters (bucket_id, event_type);

-- What plans may include. An archived one stays for the plans that have it.
CREATE TABLE features (
    seq         integer PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    bucket_id   text NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    key         text NOT NULL,
    name        text NOT NULL,
    meter_id    text REFERENCES meters (id) ON DELETE CASCADE, -- NULL: it is not metered
    filters     text NOT NULL,                         -- a JSON object; empty: none
    metadata    text NOT NULL,
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL,
    archived_at integer
) STRICT;
CREATE UNIQUE INDEX features_by_key ON features (bucket_id, key) WHERE archived_at IS NULL;
CREATE INDEX features_by_bucket ON features (bucket_id, created_at, seq);
CREATE INDEX features_by_meter ON features (meter_id);

CREATE TABLE plans (
    seq             integer PRIMARY KEY,
    id              text NOT NULL UNIQUE,
    bucket_id       text NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    key             text NOT NULL,
    version         integer NOT NULL,
    name            text NOT NULL,
    description     text NOT NULL,
    metadata        text NOT NULL,
    currency        text NOT NULL,
    billing_cadence text NOT NULL,
    status          text NOT NULL,                     -- draft, active, archived
    alignment       text NOT NULL,
    pro_rating      text NOT NULL,
    phases          text NOT NULL,                     -- a JSON array
    effective_from  integer,
    effective_to    integer,
    created_at      integer NOT NULL,
    updated_at      integer NOT NULL,
    UNIQUE (bucket_id, key, version)
) STRICT;
CREATE INDEX plans_by_bucket ON plans (bucket_id, created_at, seq);

-- The plan of a consumer. Periods begin with the hour anchor_at, phases with since_at.
CREATE TABLE subscriptions (
    consumer_id text NOT NULL PRIMARY KEY REFERENCES key_consumers (id) ON DELETE CASCADE,
    plan_id     text NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    anchor_at   integer NOT NULL,
    since_at    integer NOT NULL,
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL
) STRICT;
CREATE INDEX subscriptions_by_plan ON subscriptions (plan_id);

-- How many events a consumer had in an hour, and the sum of their totals. Gateways add those of
-- requests, with their numbered batches; the record stage adds those of deliveries, with the
-- records. Nothing refers to buckets and consumers: counts outlive them, and come late.
CREATE TABLE meter_hours (
    bucket_id   text NOT NULL,
    consumer_id text NOT NULL,
    event_type  text NOT NULL,
    hour        integer NOT NULL,
    deployment  text NOT NULL,
    route       text NOT NULL,
    method      text NOT NULL,
    status      text NOT NULL,
    count       integer NOT NULL,
    sum         integer NOT NULL,
    PRIMARY KEY (consumer_id, event_type, hour, deployment, route, method, status)
) STRICT;
CREATE INDEX meter_hours_by_bucket ON meter_hours (bucket_id, event_type, hour);
CREATE INDEX meter_hours_by_age ON meter_hours (hour);

-- Whose key registered a webhook: deliveries count for that consumer. NULL: for nobody.
ALTER TABLE webhooks ADD COLUMN consumer_id text;
CREATE INDEX webhooks_by_consumer ON webhooks (consumer_id) WHERE consumer_id IS NOT NULL AND NOT deleted;

-- When the period ends whose quota of deliveries is used up.
ALTER TABLE webhook_health ADD COLUMN disabled_until integer;
CREATE INDEX webhook_health_by_end ON webhook_health (disabled_until) WHERE disabled_until IS NOT NULL;
