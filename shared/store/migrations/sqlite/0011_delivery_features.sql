-- +goose Up

-- What a webhook may ask for beyond events and times. The defaults are what a webhook had
-- before: no order, no filter, pushed, no authentication, signed with its secret.
ALTER TABLE webhooks ADD COLUMN ordering text NOT NULL DEFAULT 'none';
ALTER TABLE webhooks ADD COLUMN ordering_max_wait_ms integer NOT NULL DEFAULT 3600000; -- 0: for ever
ALTER TABLE webhooks ADD COLUMN filter text;                                           -- JSON as it was given; NULL: none
ALTER TABLE webhooks ADD COLUMN delivery text NOT NULL DEFAULT 'push';
ALTER TABLE webhooks ADD COLUMN auth blob;                                             -- sealed JSON; NULL: none
ALTER TABLE webhooks ADD COLUMN signing text NOT NULL DEFAULT 'v1';
