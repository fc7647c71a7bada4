-- +goose Up

-- What is counted in a bucket, and by what. The api writes meters, features, plans and
-- subscriptions; gateways and the record stage read them.
CREATE TABLE meters (
    seq            bigint GENERATED ALWAYS AS IDENTITY,
    id             text COLLATE "C" PRIMARY KEY,
    bucket_id      text COLLATE "C" NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    slug           text COLLATE "C" NOT NULL,
    name           text NOT NULL,
    description    text NOT NULL,
    metadata       text NOT NULL,                      -- a JSON object; empty: none
    aggregation    text NOT NULL,                      -- COUNT, SUM
    event_type     text COLLATE "C" NOT NULL,
    event_from     timestamptz,                        -- earlier events don't count; NULL: all count
    value_property text NOT NULL,                      -- of SUM: what is summed
    group_by       text NOT NULL,                      -- a JSON object; empty: none
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    UNIQUE (bucket_id, slug)
);
-- Whether deliveries are counted for the consumers of a bucket.
CREATE INDEX meters_by_event_type ON meters (bucket_id, event_type);

-- What plans may include. An archived one stays for the plans that have it.
CREATE TABLE features (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    id          text COLLATE "C" PRIMARY KEY,
    bucket_id   text COLLATE "C" NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    key         text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    meter_id    text COLLATE "C" REFERENCES meters (id) ON DELETE CASCADE, -- NULL: it is not metered
    filters     text NOT NULL,                         -- a JSON object; empty: none
    metadata    text NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    archived_at timestamptz
);
CREATE UNIQUE INDEX features_by_key ON features (bucket_id, key) WHERE archived_at IS NULL;
CREATE INDEX features_by_bucket ON features (bucket_id, created_at, seq);
CREATE INDEX features_by_meter ON features (meter_id);

CREATE TABLE plans (
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    id              text COLLATE "C" PRIMARY KEY,
    bucket_id       text COLLATE "C" NOT NULL REFERENCES key_buckets (id) ON DELETE CASCADE,
    key             text COLLATE "C" NOT NULL,
    version         bigint NOT NULL,
    name            text NOT NULL,
    description     text NOT NULL,
    metadata        text NOT NULL,
    currency        text NOT NULL,
    billing_cadence text NOT NULL,
    status          text NOT NULL,                     -- draft, active, archived
    alignment       text NOT NULL,
    pro_rating      text NOT NULL,
    phases          text NOT NULL,                     -- a JSON array
    effective_from  timestamptz,
    effective_to    timestamptz,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    UNIQUE (bucket_id, key, version)
);
CREATE INDEX plans_by_bucket ON plans (bucket_id, created_at, seq);

-- The plan of a consumer. Periods begin with the hour anchor_at, phases with since_at.
CREATE TABLE subscriptions (
    consumer_id text COLLATE "C" PRIMARY KEY REFERENCES key_consumers (id) ON DELETE CASCADE,
    plan_id     text COLLATE "C" NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    anchor_at   timestamptz NOT NULL,
    since_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
CREATE INDEX subscriptions_by_plan ON subscriptions (plan_id);

-- How many events a consumer had in an hour, and the sum of their totals. Gateways add those of
-- requests, with their numbered batches; the record stage adds those of deliveries, with the
-- records. Nothing refers to buckets and consumers: counts outlive them, and come late.
CREATE TABLE meter_hours (
    bucket_id   text COLLATE "C" NOT NULL,
    consumer_id text COLLATE "C" NOT NULL,
    event_type  text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL,
    deployment  text COLLATE "C" NOT NULL,
    route       text COLLATE "C" NOT NULL,
    method      text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL,
    count       bigint NOT NULL,
    sum         bigint NOT NULL,
    PRIMARY KEY (consumer_id, event_type, hour, deployment, route, method, status)
);
CREATE INDEX meter_hours_by_bucket ON meter_hours (bucket_id, event_type, hour);
CREATE INDEX meter_hours_by_age ON meter_hours (hour);

-- Whose key registered a webhook: deliveries count for that consumer. NULL: for nobody.
ALTER TABLE webhooks ADD COLUMN consumer_id text COLLATE "C";
CREATE INDEX webhooks_by_consumer ON webhooks (consumer_id) WHERE consumer_id IS NOT NULL AND NOT deleted;

-- When the period ends whose quota of deliveries is used up.
ALTER TABLE webhook_health ADD COLUMN disabled_until timestamptz;
CREATE INDEX webhook_health_by_end ON webhook_health (disabled_until) WHERE disabled_until IS NOT NULL;
