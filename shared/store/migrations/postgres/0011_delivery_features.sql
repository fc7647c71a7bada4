-- +goose Up

-- What a webhook may ask for beyond events and times. The defaults are what a webhook had
-- before: no order, no filter, pushed, no authentication, signed with its secret.
ALTER TABLE webhooks
    ADD COLUMN ordering text COLLATE "C" NOT NULL DEFAULT 'none',
    ADD COLUMN ordering_max_wait_ms bigint NOT NULL DEFAULT 3600000,  -- 0: for ever
    ADD COLUMN filter text,                                           -- JSON as it was given; NULL: none
    ADD COLUMN delivery text COLLATE "C" NOT NULL DEFAULT 'push',
    ADD COLUMN auth bytea,                                            -- sealed JSON; NULL: none
    ADD COLUMN signing text COLLATE "C" NOT NULL DEFAULT 'v1';
