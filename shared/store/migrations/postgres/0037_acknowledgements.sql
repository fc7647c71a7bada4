-- +goose Up
-- That somebody knows of what is the matter with a webhook.
CREATE TABLE webhook_acknowledgements (
    webhook_id  text COLLATE "C" NOT NULL PRIMARY KEY,
    cause       text COLLATE "C" NOT NULL,
    sub         text COLLATE "C" NOT NULL,              -- who
    at          timestamptz NOT NULL,
    muted_until timestamptz                             -- NULL: until the cause changes, or it fails anew
);
