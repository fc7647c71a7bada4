-- +goose Up

-- How many requests of a deployment were answered in a minute, an hour and a day, by consumer
-- and status. Exact: every request is in each of the three.
CREATE TABLE gateway_calls (
    deployment text COLLATE "C" NOT NULL,
    step       integer NOT NULL,                          -- minutes
    start      timestamptz NOT NULL,
    consumer   text COLLATE "C" NOT NULL,
    status     integer NOT NULL,
    calls      bigint NOT NULL,
    micros     bigint NOT NULL,                           -- that the answers took together
    PRIMARY KEY (deployment, step, start, consumer, status)
) WITH (fillfactor = 80);
-- The purge.
CREATE INDEX gateway_calls_by_age ON gateway_calls (step, start);

-- Requests that are counted and have no row in gateway_requests.
CREATE TABLE gateway_not_kept (
    deployment text COLLATE "C" NOT NULL,
    start      timestamptz NOT NULL,                      -- of a minute
    requests   bigint NOT NULL,
    PRIMARY KEY (deployment, start)
);
-- The purge.
CREATE INDEX gateway_not_kept_by_age ON gateway_not_kept (start);

-- The last batch of each process that is in the tables of this file: one that comes again was
-- written before.
CREATE TABLE gateway_writers (
    writer     text COLLATE "C" PRIMARY KEY,
    batch      bigint NOT NULL,
    written_at timestamptz NOT NULL
) WITH (fillfactor = 80);

-- Requests that were kept, in a partition for each hour, which is dropped whole. No query, no
-- header, no body and no key is in any column.
CREATE TABLE gateway_requests (
    deployment        text COLLATE "C" NOT NULL,
    at                timestamptz NOT NULL,
    id                bigint NOT NULL,                    -- random; tells apart what came at the same time
    request_id        text COLLATE "C" NOT NULL,
    client_request_id text COLLATE "C" NOT NULL,          -- empty: the client gave none, or it is request_id
    build_id          text COLLATE "C" NOT NULL,
    method            text COLLATE "C" NOT NULL,
    host              text COLLATE "C" NOT NULL,
    path              text COLLATE "C" NOT NULL,          -- without the query
    route_path        text COLLATE "C" NOT NULL,          -- empty: no route matched
    status            integer NOT NULL,
    micros            bigint NOT NULL,
    consumer          text COLLATE "C" NOT NULL,
    severity          text COLLATE "C" NOT NULL,          -- the highest of the entries
    network           text COLLATE "C" NOT NULL,          -- of the client: /24 or /48
    bytes_in          bigint NOT NULL,
    bytes_out         bigint NOT NULL,
    back_end_host     text COLLATE "C" NOT NULL,          -- empty: none was asked
    back_end_status   integer NOT NULL,                   -- 0: it did not answer
    back_end_micros   bigint NOT NULL,
    mcp_method        text COLLATE "C" NOT NULL,
    mcp_tool          text COLLATE "C" NOT NULL,
    entry_count       integer NOT NULL,                   -- with the last one, which follows from the row
    entries           text COLLATE "C" NOT NULL,          -- JSON, without the last one; empty: no other
    messages          text COLLATE "C" NOT NULL,          -- of these, a line each
    truncated         boolean NOT NULL,
    PRIMARY KEY (deployment, at, id)
) PARTITION BY RANGE (at);
CREATE INDEX gateway_requests_by_id ON gateway_requests (deployment, request_id);
CREATE INDEX gateway_requests_by_route ON gateway_requests (deployment, route_path, at);
CREATE INDEX gateway_requests_by_consumer ON gateway_requests (deployment, consumer, at);
-- What is looked for and rare.
CREATE INDEX gateway_requests_by_class ON gateway_requests (deployment, (status / 100), at) WHERE status >= 300;
CREATE INDEX gateway_requests_by_severity ON gateway_requests (deployment, severity, at) WHERE severity <> 'info';
CREATE INDEX gateway_requests_by_method ON gateway_requests (deployment, method, at) WHERE method <> 'GET';
