-- compatible_from: 6
-- The schema is six files, one per area of the code. Each has a section per package that owns tables, in the order of
-- the packages.
--
-- Money is stored in integer minor units of its currency, mass in integer grams. The keys of every table that grows
-- start with the organisation, the account or the mode, so that it can be partitioned by that column.
--
-- `next_attempt_at` is the time at which a worker picks a row up; null means that nothing is left to do for it, or that
-- another event will set it. docs/architecture.md describes these queues.

CREATE DOMAIN mode AS text CHECK (VALUE IN ('live', 'test'));
CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');

-- db -----------------------------------------------------------------------------------------------------------

-- One row while the service is held, for example after a restore: nothing leaves it and no number is taken.
CREATE TABLE service_holds (
    id       boolean PRIMARY KEY DEFAULT true CHECK (id),
    held_at  timestamptz NOT NULL,
    held_by  text NOT NULL,
    reason   text NOT NULL CHECK (reason <> '')
);

-- How each operation last ended. `status` is its exit code.
CREATE TABLE operation_runs (
    operation     text PRIMARY KEY CHECK (operation IN ('backup', 'restore_test', 'doctor')),
    ended_at      timestamptz NOT NULL,
    status        smallint NOT NULL,
    succeeded_at  timestamptz
);

-- Those of `platform/values/amounts.py`.
CREATE FUNCTION decimals_of(currency text) RETURNS integer IMMUTABLE LANGUAGE sql AS $$
    SELECT CASE WHEN currency = ANY ('{BIF,CLP,DJF,GNF,ISK,JPY,KMF,KRW,PYG,RWF,UGX,VND,VUV,XAF,XOF,XPF}') THEN 0
                WHEN currency = ANY ('{BHD,IQD,JOD,KWD,LYD,OMR,TND}') THEN 3 ELSE 2 END
$$;

-- An amount as people read it: `9.79 EUR`.
CREATE FUNCTION money_text(amount_minor numeric, currency text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT round(amount_minor / power(10::numeric, decimals_of(currency)), decimals_of(currency))::text || ' ' || currency
$$;

CREATE FUNCTION refuse_while_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM service_holds) THEN
        RAISE EXCEPTION 'the service is held: % is not written', TG_TABLE_NAME USING ERRCODE = 'TH001';
    END IF;
    RETURN NULL;
END
$$;

-- http ---------------------------------------------------------------------------------------------------------

-- Token buckets of clients, as all api processes together have used them. Not logged: after a crash or a failover every
-- client has a full bucket again, and no write waits for the disk. Rows of full buckets are deleted.
CREATE UNLOGGED TABLE rate_limits (
    name        text NOT NULL,
    -- A hash: the table contains no addresses of clients.
    client      bigint NOT NULL,
    level       double precision NOT NULL,
    capacity    double precision NOT NULL CHECK (capacity > 0),
    per_second  double precision NOT NULL CHECK (per_second > 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (name, client)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

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

-- events -------------------------------------------------------------------------------------------------------

-- One stream per organisation and mode. A transaction updates its row last, in the statement that inserts the events:
-- positions are then gapless and in commit order, and a reader that reads upwards misses no event.
CREATE TABLE event_streams (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    last_position    bigint NOT NULL DEFAULT 0,
    last_sequence    timestamptz NOT NULL DEFAULT '2000-01-01T00:00:00Z',
    -- Raised by every transaction that changes the JSON of orders without an event: together with the position it is a
    -- version of all orders. The time in microseconds, so that no value returns after a backup was restored.
    rewritten        bigint NOT NULL DEFAULT 0,
    -- Events up to this position were removed, or are about to be: nothing reads them any more. The sequence is that of
    -- the last one.
    floor_position   bigint NOT NULL DEFAULT 0,
    floor_sequence   timestamptz,
    -- The types of events beside those of orders that are recorded, sorted: those that a webhook names.
    recorded_types   text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (organisation_id, mode)
) WITH (fillfactor = 50);
-- BRIN, so that appending events still updates the row without new index entries (HOT; from PostgreSQL 16 on). One page
-- per range: only pages with a stream that changed are read.
CREATE INDEX event_streams_recent ON event_streams USING brin (last_sequence)
    WITH (pages_per_range = 1, autosummarize = on);

-- Every event is stored once, however many webhooks receive it. Partitioned by month: every partition has its own
-- indexes, which are the same in all. New partitions are copies of the default partition, which gets the rows that fit
-- into no other. The partitioned table has none, because a unique index would have to contain the time, and would then
-- not make positions and ids unique. 0006_apps.sql creates the first partitions, a job the later ones.
CREATE TABLE events (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    position         bigint NOT NULL,
    id               text NOT NULL,
    account_id       text NOT NULL,
    subject_id       text NOT NULL,
    event_type       text NOT NULL,
    sequence         timestamptz NOT NULL,
    -- The JSON of the subject of the event, compressed, or plain if a trigger appended the event. The rest of the event's JSON is built from the columns.
    document         bytea NOT NULL
) PARTITION BY RANGE (sequence);
CREATE TABLE events_default PARTITION OF events (PRIMARY KEY (organisation_id, mode, position)) DEFAULT;
-- An account belongs to one organisation and mode: its id is enough.
CREATE INDEX ON events_default (account_id, position);
-- Ids start with the time: new ones are next to each other, on pages that are in memory. They are also random, so no
-- constraint is needed to make them unique, and entries need no organisation.
CREATE INDEX ON events_default (id);
-- For the page of an order.
CREATE INDEX ON events_default (subject_id);

-- Who did what. Changes of the catalogue belong to no organisation. Append-only: a trigger refuses UPDATE, DELETE and
-- TRUNCATE.
CREATE TABLE audit_log (
    -- Null: an entry of the operator, which no organisation may read.
    organisation_id  text,
    id               text PRIMARY KEY,
    at               timestamptz NOT NULL,
    actor            text NOT NULL,
    action           text NOT NULL,
    subject_id       text NOT NULL,
    details          jsonb NOT NULL DEFAULT '{}',
    -- Null: the change concerns both modes.
    mode             mode,
    -- The API client's network address.
    address          text,
    -- The values that changed. `before` is null for a new object, `after` for a deleted one.
    before           jsonb CHECK (jsonb_typeof(before) = 'object'),
    after            jsonb CHECK (jsonb_typeof(after) = 'object')
);
CREATE INDEX audit_log_by_organisation ON audit_log (organisation_id, at, id);
CREATE INDEX audit_log_by_subject ON audit_log (subject_id, at, id);
CREATE INDEX audit_log_by_time ON audit_log (at, id);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Trace contexts of events, stored only while tracing is on and for a few days. Not a foreign key: old events may be
-- dropped.
CREATE TABLE event_traces (
    organisation_id  text NOT NULL,
    mode             text NOT NULL,
    position         bigint NOT NULL,
    trace            text NOT NULL,
    stored_at        timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, mode, position)
);
CREATE INDEX event_traces_stored ON event_traces (stored_at);

-- Events that the current transaction appends when it commits, and streams whose orders it rewrites. Locking the stream earlier would
-- deadlock: these changes lock invoices, transfers and number series afterwards. Empty for everybody else.
CREATE TABLE pending_events (
    transaction      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number           bigint GENERATED ALWAYS AS IDENTITY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text,
    id               text,
    -- Null: no event. The JSON of orders was rewritten without one.
    event_type       text,
    subject_id       text,
    -- The order that the event is about, if it is about one: its JSON at the commit follows the document.
    order_id         text,
    document         bytea,
    trace            text,
    at               timestamptz,
    PRIMARY KEY (transaction, number),
    CHECK (event_type IS NULL OR (account_id, id, subject_id, document, at) IS NOT NULL)
);

-- The first row of a transaction appends all of them; the others find nothing left. Streams are locked in the order in
-- which all transactions lock them.
CREATE FUNCTION append_pending_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pending_events WHERE transaction = pg_current_xact_id()) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM event_streams stream
    JOIN (SELECT DISTINCT organisation_id, mode FROM pending_events WHERE transaction = pg_current_xact_id()) wanted
      ON stream.organisation_id = wanted.organisation_id AND stream.mode = wanted.mode
    ORDER BY stream.organisation_id, stream.mode FOR UPDATE OF stream;
    WITH taken AS (
        DELETE FROM pending_events WHERE transaction = pg_current_xact_id()
        RETURNING number, organisation_id, mode, account_id, id, event_type, subject_id, order_id, document, trace, at
    ), input AS (
        SELECT taken.organisation_id, taken.mode, taken.account_id, taken.id, event_type, subject_id, trace,
               CASE WHEN orders.id IS NULL THEN document
                    ELSE document || convert_to(',"order":', 'UTF8') || orders.wire_document END AS document,
               row_number() OVER (PARTITION BY taken.organisation_id, taken.mode ORDER BY number) AS n
        FROM taken LEFT JOIN orders ON orders.account_id = taken.account_id AND orders.id = taken.order_id
        WHERE event_type IS NOT NULL
    ), counts AS (
        SELECT organisation_id, mode, count(event_type) AS events, max(at) AS at, count(*) > count(event_type) AS rewrites
        FROM taken GROUP BY organisation_id, mode
    ), streams AS (
        UPDATE event_streams stream
        SET last_position = last_position + events,
            last_sequence = CASE WHEN events = 0 THEN last_sequence ELSE
                                greatest(last_sequence + interval '1 ms', date_trunc('milliseconds', counts.at))
                                + (events - 1) * interval '1 ms' END,
            rewritten = CASE WHEN rewrites
                             THEN greatest(rewritten + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
                             ELSE rewritten END
        FROM counts WHERE stream.organisation_id = counts.organisation_id AND stream.mode = counts.mode
        RETURNING stream.organisation_id, stream.mode, last_position - events AS before_position,
                  last_sequence - events * interval '1 ms' AS before_sequence
    ), numbered AS (
        SELECT input.organisation_id, input.mode, input.account_id, before_position + n AS position,
               before_sequence + n * interval '1 ms' AS sequence, input.id, input.event_type, input.subject_id,
               input.document, input.trace
        FROM input JOIN streams ON streams.organisation_id = input.organisation_id AND streams.mode = input.mode
    ), traced AS (
        INSERT INTO event_traces (organisation_id, mode, position, trace, stored_at)
        SELECT organisation_id, mode, position, trace, clock_timestamp() FROM numbered WHERE trace IS NOT NULL
    )
    INSERT INTO events (organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, document)
    SELECT organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, document FROM numbered;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER pending_events_are_appended AFTER INSERT ON pending_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION append_pending_events();

-- documents ----------------------------------------------------------------------------------------------------

-- Outgoing mail. A row without sent_at is tried again at next_attempt_at. Partitioned by month, as `events` is.
CREATE TABLE mails (
    id               text NOT NULL,
    organisation_id  text NOT NULL,
    recipients       text[] NOT NULL CHECK (cardinality(recipients) > 0),
    message          bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz,
    lease_token      bigint NOT NULL DEFAULT 0,
    last_error       text,
    sent_at          timestamptz,
    -- Why the mail is kept and never sent. Null: it is sent.
    held_reason      text CHECK (held_reason IS NULL OR (next_attempt_at IS NULL AND sent_at IS NULL)),
    -- The mail was given up, and nobody wants to send it any more.
    discarded_at     timestamptz,
    -- The order, invoice or refund that the mail is about, so that it appears in the order's timeline.
    subject_id       text,
    -- 0: sign-in and security, sent first; 1: others; 2: many at once, such as invoices and certificates.
    urgency          smallint NOT NULL DEFAULT 1 CHECK (urgency BETWEEN 0 AND 2)
) PARTITION BY RANGE (created_at);
CREATE TABLE mails_default PARTITION OF mails (PRIMARY KEY (id)) DEFAULT;
CREATE INDEX ON mails_default (urgency, next_attempt_at) WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX ON mails_default (created_at, id);
CREATE INDEX ON mails_default (created_at)
    WHERE sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL;
CREATE INDEX ON mails_default (created_at) WHERE held_reason IS NOT NULL;
CREATE INDEX ON mails_default (subject_id) WHERE subject_id IS NOT NULL;

-- keys ---------------------------------------------------------------------------------------------------------

-- Keys with which secrets in this database may be sealed. A process that lacks one of them refuses to start: it could
-- not sign requests to webhooks. Only ids are stored, which do not reveal the keys.
CREATE TABLE secret_keys (
    id           text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    recorded_at  timestamptz NOT NULL DEFAULT now()
);

-- The keys of the operator. Rows are never deleted: signatures of retired keys stay valid, and their public keys must be
-- found.
CREATE TABLE signing_keys (
    id            text PRIMARY KEY,
    purpose       text NOT NULL CHECK (purpose IN ('document', 'credential', 'log')),
    created_at    timestamptz NOT NULL,
    -- From then on the key signs nothing. It may be a minute ahead: other processes notice a rotation a little later.
    retired_at    timestamptz,
    -- The key leaked: signatures with this date or a later one are refused.
    revoked_from  timestamptz,
    -- In PEM: the certificate of a key for documents, else the public key.
    public        text NOT NULL UNIQUE,
    -- The private key in PEM, encrypted. Null if it is in a file of the operator or in a hardware module.
    private_box   bytea,
    CHECK (revoked_from IS NULL OR retired_at IS NOT NULL)
);
-- Two processes that create the first key at the same time: the second one uses the key of the first.
CREATE UNIQUE INDEX signing_keys_current ON signing_keys (purpose) WHERE retired_at IS NULL;

-- Idempotency keys of requests whose objects have no column for them. The row is written in the transaction that creates
-- the object, so that there is never one without the other.
CREATE TABLE idempotent_responses (
    -- The account, or the organisation if the object belongs to no account.
    owner_id         text NOT NULL,
    mode             mode NOT NULL,
    route            text NOT NULL,
    -- A hash: a key may contain the data of a person.
    key_digest       bytea NOT NULL,
    id               text NOT NULL,
    organisation_id  text NOT NULL,
    request_digest   bytea NOT NULL,
    -- The API key of the request. Only this one gets the response again.
    key_id           text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- The id of the object. Null only inside the transaction that creates it.
    created_id       text,
    -- The sealed response, removed after 24 hours.
    response_box     bytea,
    PRIMARY KEY (owner_id, mode, route, key_digest)
);
CREATE INDEX idempotent_responses_kept ON idempotent_responses (created_at) WHERE response_box IS NOT NULL;

-- jobs ---------------------------------------------------------------------------------------------------------

-- What each running worker last reported about its jobs.
CREATE TABLE worker_reports (
    worker       text PRIMARY KEY,
    started_at   timestamptz NOT NULL,
    reported_at  timestamptz NOT NULL,
    jobs         jsonb NOT NULL
) WITH (fillfactor = 50);
