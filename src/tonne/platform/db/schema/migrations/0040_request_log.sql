-- compatible_from: 34

-- http ---------------------------------------------------------------------------------------------------------

-- Requests to the API of the last days. A row is in the partition of its day: the number of days since 1970, modulo 10.
-- Ten partitions hold 8 days and leave two that are empty: a job truncates a partition before its next turn, which costs
-- the same for any number of rows.
CREATE TABLE api_requests (
    slot             smallint NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    at               timestamptz NOT NULL,
    -- Not unique: clients may send an id of their own, and send it again.
    request_id       text NOT NULL,
    key_id           text NOT NULL,
    -- Null: the request was refused before its account was known.
    account_id       text,
    method           text NOT NULL,
    -- The template of the path, such as /v1/orders/{order_id}.
    route            text NOT NULL,
    status           smallint NOT NULL,
    duration_us      integer NOT NULL,
    error_code       text,
    -- What was wrong, without values that the client sent.
    error_message    text,
    -- Of a failed write, with masked values. At most 4 KiB.
    body             text CHECK (octet_length(body) <= 4096)
) PARTITION BY LIST (slot);
CREATE TABLE api_requests_0 PARTITION OF api_requests FOR VALUES IN (0);
CREATE TABLE api_requests_1 PARTITION OF api_requests FOR VALUES IN (1);
CREATE TABLE api_requests_2 PARTITION OF api_requests FOR VALUES IN (2);
CREATE TABLE api_requests_3 PARTITION OF api_requests FOR VALUES IN (3);
CREATE TABLE api_requests_4 PARTITION OF api_requests FOR VALUES IN (4);
CREATE TABLE api_requests_5 PARTITION OF api_requests FOR VALUES IN (5);
CREATE TABLE api_requests_6 PARTITION OF api_requests FOR VALUES IN (6);
CREATE TABLE api_requests_7 PARTITION OF api_requests FOR VALUES IN (7);
CREATE TABLE api_requests_8 PARTITION OF api_requests FOR VALUES IN (8);
CREATE TABLE api_requests_9 PARTITION OF api_requests FOR VALUES IN (9);
CREATE INDEX api_requests_newest ON api_requests (organisation_id, mode, at, request_id);
CREATE INDEX api_requests_failed ON api_requests (organisation_id, mode, at, request_id) WHERE status >= 400;
-- To find rows that are older than their partition should have.
CREATE INDEX api_requests_oldest ON api_requests USING brin (at);
CREATE INDEX api_requests_by_id ON api_requests (organisation_id, request_id);
