-- +goose Up
-- Active domains are looked at again each week, and pass to an account that has a newer proof.
ALTER TABLE gateway_domains ADD COLUMN proven_at integer; -- when DNS had the account's proof last; NULL: it never had
ALTER TABLE gateway_domains ADD COLUMN notice_at integer; -- since when the hostname is to pass, in the row that has it and in that which gets it
ALTER TABLE gateway_domains ADD COLUMN lost_at integer;   -- when the account's hostname passed to another one; the row waits since then
CREATE INDEX gateway_domains_noticed ON gateway_domains (hostname) WHERE notice_at IS NOT NULL;
-- What DNS answered may have proofs of other accounts.
UPDATE gateway_domains SET answers = '' WHERE answers LIKE '%waybill-verification=%';
-- The first day is left to processes of the version before, which would look at an active domain once and never again.
UPDATE gateway_domains SET proven_at = verified_at, next_check_at = (unixepoch() + 86400 + abs(random() % 604800)) * 1000000
    WHERE verified_at IS NOT NULL AND removed_at IS NULL;
