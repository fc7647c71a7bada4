-- +goose Up
-- Why a good receiver refuses a test; NULL: it should not.
ALTER TABLE requests ADD COLUMN forge text COLLATE "C";
