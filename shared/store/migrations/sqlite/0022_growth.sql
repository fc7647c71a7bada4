-- +goose Up
-- The upkeep of the log looks for webhooks that were deleted long ago, and for those that lately became
-- read by pull, without reading all webhooks.
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted;
CREATE INDEX webhooks_pulled ON webhooks (updated_at) WHERE delivery = 'pull' AND NOT deleted;
-- The relay looks each second for requests that are not on their way.
CREATE INDEX requests_unrelayed ON requests (id) WHERE relayed_at IS NULL;
