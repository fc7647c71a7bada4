-- +goose Up

-- A manager counts once the person has accepted. Those that are there have counted, and go on counting.
ALTER TABLE key_managers ADD COLUMN accepted_at integer;
ALTER TABLE key_managers ADD COLUMN invited_by text NOT NULL DEFAULT '';
UPDATE key_managers SET accepted_at = created_at;
