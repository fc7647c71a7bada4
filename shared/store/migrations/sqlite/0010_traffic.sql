-- +goose Up

-- How many requests of a deployment were answered in a minute, an hour and a day, by consumer
-- and status. Exact: every request is in each of the three.
CREATE TABLE gateway_calls (
    deployment text NOT NULL,
    step       integer NOT NULL,                      -- minutes
    start      integer NOT NULL,
    consumer   text NOT NULL,
    status     integer NOT NULL,
    calls      integer NOT NULL,
    micros     integer NOT NULL,                      -- that the answers took together
    PRIMARY KEY (deployment, step, start, consumer, status)
) STRICT, WITHOUT ROWID;
-- The purge.
CREATE INDEX gateway_calls_by_age ON gateway_calls (step, start);

-- Requests that are counted and have no row in gateway_requests.
CREATE TABLE gateway_not_kept (
    deployment text NOT NULL,
    start      integer NOT NULL,                      -- of a minute
    requests   integer NOT NULL,
    PRIMARY KEY (deployment, start)
) STRICT, WITHOUT ROWID;
-- The purge.
CREATE INDEX gateway_not_kept_by_age ON gateway_not_kept (start);

-- The last batch of each process that is in the tables of this file: one that comes again was
-- written before.
CREATE TABLE gateway_writers (
    writer     text NOT NULL PRIMARY KEY,
    batch      integer NOT NULL,
    written_at integer NOT NULL
) STRICT, WITHOUT ROWID;

-- Requests that were kept. No query, no header, no body and no key is in any column.
CREATE TABLE gateway_requests (
    deployment        text NOT NULL,
    at                integer NOT NULL,
    id                integer NOT NULL,               -- random; tells apart what came at the same time
    request_id        text NOT NULL,
    client_request_id text NOT NULL,                  -- empty: the client gave none, or it is request_id
    build_id          text NOT NULL,
    method            text NOT NULL,
    host              text NOT NULL,
    path              text NOT NULL,                  -- without the query
    route_path        text NOT NULL,                  -- empty: no route matched
    status            integer NOT NULL,
    micros            integer NOT NULL,
    consumer          text NOT NULL,
    severity          text NOT NULL,                  -- the highest of the entries
    network           text NOT NULL,                  -- of the client: /24 or /48
    bytes_in          integer NOT NULL,
    bytes_out         integer NOT NULL,
    back_end_host     text NOT NULL,                  -- empty: none was asked
    back_end_status   integer NOT NULL,               -- 0: it did not answer
    back_end_micros   integer NOT NULL,
    mcp_method        text NOT NULL,
    mcp_tool          text NOT NULL,
    entry_count       integer NOT NULL,               -- with the last one, which follows from the row
    entries           text NOT NULL,                  -- JSON, without the last one; empty: no other
    messages          text NOT NULL,                  -- of these, a line each
    truncated         integer NOT NULL,
    PRIMARY KEY (deployment, at, id)
) STRICT;
-- The purge.
CREATE INDEX gateway_requests_by_age ON gateway_requests (at);
CREATE INDEX gateway_requests_by_id ON gateway_requests (deployment, request_id);
CREATE INDEX gateway_requests_by_route ON gateway_requests (deployment, route_path, at);
CREATE INDEX gateway_requests_by_consumer ON gateway_requests (deployment, consumer, at);
-- What is looked for and rare.
CREATE INDEX gateway_requests_by_class ON gateway_requests (deployment, (status / 100), at) WHERE status >= 300;
CREATE INDEX gateway_requests_by_severity ON gateway_requests (deployment, severity, at) WHERE severity <> 'info';
CREATE INDEX gateway_requests_by_method ON gateway_requests (deployment, method, at) WHERE method <> 'GET';
