-- +goose Up

-- A manager counts once the person has accepted. Those that are there have counted, and go on counting.
ALTER TABLE key_managers ADD COLUMN accepted_at timestamptz;
ALTER TABLE key_managers ADD COLUMN invited_by text NOT NULL DEFAULT '';
UPDATE key_managers SET accepted_at = created_at;
-- lower(email) is that of ASCII letters alone, as on SQLite: other locales take U+212A for k.
ALTER TABLE key_managers ALTER COLUMN email TYPE text COLLATE "C";
