-- +goose Up
-- That somebody knows of what is the matter with a webhook.
CREATE TABLE webhook_acknowledgements (
    webhook_id  text NOT NULL PRIMARY KEY,
    cause       text NOT NULL,
    sub         text NOT NULL,                          -- who
    at          integer NOT NULL,
    muted_until integer                                 -- NULL: until the cause changes, or it fails anew
) STRICT;
