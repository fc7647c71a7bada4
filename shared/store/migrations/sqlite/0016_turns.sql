-- +goose Up

-- When gateways last began a build of an account: a count of the builds that were begun, not a
-- time, so that the clocks of gateways don't matter. It outlives the builds. An account that is
-- not in it was never served.
CREATE TABLE gateway_turns (
    account text NOT NULL PRIMARY KEY,
    turn    integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX gateway_turns_by_turn ON gateway_turns (turn);
