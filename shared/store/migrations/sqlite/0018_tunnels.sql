-- +goose Up

-- A way into a network that gateways can't reach, through agents there. The api makes and
-- removes it. A removed one stays for a day, so that gateways learn of it.
CREATE TABLE gateway_tunnels (
    seq          integer PRIMARY KEY,
    id           text NOT NULL UNIQUE,
    account      text NOT NULL REFERENCES accounts (name),
    name         text NOT NULL,
    token_suffix text NOT NULL,                        -- of the present token
    services     text NOT NULL,                        -- the services configuration that holds, JSON; empty: none yet
    operation    text NOT NULL,            -- the operation in progress; empty: none
    version      integer NOT NULL,                      -- gateway_version at the last change that gateways must see
    created_at   integer NOT NULL,
    updated_at   integer NOT NULL,
    connected_at integer,                          -- when an agent connected last; NULL: never
    removed_at   integer
) STRICT;
CREATE UNIQUE INDEX gateway_tunnels_by_name ON gateway_tunnels (account, name) WHERE removed_at IS NULL;
CREATE INDEX gateway_tunnels_by_account ON gateway_tunnels (account, created_at, seq) WHERE removed_at IS NULL;
CREATE INDEX gateway_tunnels_by_version ON gateway_tunnels (version);

-- What agents prove themselves by: HMACs of tokens.
CREATE TABLE gateway_tunnel_tokens (
    hash       blob NOT NULL PRIMARY KEY,
    tunnel_id  text NOT NULL REFERENCES gateway_tunnels (id) ON DELETE CASCADE,
    created_at integer NOT NULL,
    ends_at    integer                             -- end of the overlap; NULL: it is the present token
) STRICT;
CREATE INDEX gateway_tunnel_tokens_by_tunnel ON gateway_tunnel_tokens (tunnel_id);

-- The connections of agents, as gateways renew them every 10 s. Requests don't depend on them.
CREATE TABLE gateway_tunnel_connections (
    id            text NOT NULL PRIMARY KEY,
    tunnel_id     text NOT NULL REFERENCES gateway_tunnels (id) ON DELETE CASCADE,
    process       text NOT NULL,                       -- of the gateway
    agent_version text NOT NULL,
    connected_at  integer NOT NULL,
    renewed_at    integer NOT NULL,
    answered      text NOT NULL,           -- the last operation that the agent has answered; empty: none
    refused       text NOT NULL                        -- why it refused that; empty: it took it
) STRICT;
CREATE INDEX gateway_tunnel_connections_by_tunnel ON gateway_tunnel_connections (tunnel_id);
CREATE INDEX gateway_tunnel_connections_by_age ON gateway_tunnel_connections (renewed_at);

-- Changes of tunnels that gateways and agents carry out. They are kept for a day.
CREATE TABLE gateway_tunnel_operations (
    id          text NOT NULL PRIMARY KEY,
    account     text NOT NULL,
    tunnel_id   text NOT NULL,
    kind        text NOT NULL,                         -- teardown, provisioning
    status      text NOT NULL,                         -- in-progress, success, error
    message     text NOT NULL,
    details     text NOT NULL,
    document    text NOT NULL,                         -- of provisioning: the services configuration, JSON
    created_at  integer NOT NULL,
    finished_at integer
) STRICT;
CREATE INDEX gateway_tunnel_operations_by_tunnel ON gateway_tunnel_operations (tunnel_id, created_at);
CREATE INDEX gateway_tunnel_operations_by_age ON gateway_tunnel_operations (finished_at);
