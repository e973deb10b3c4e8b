-- compatible_from: 34

-- events -------------------------------------------------------------------------------------------------------

-- Events of further types that the current transaction appends when it commits. Locking the stream earlier would
-- deadlock: these changes lock invoices, transfers and number series afterwards. Empty for everybody else.
CREATE TABLE pending_events (
    transaction      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number           bigint GENERATED ALWAYS AS IDENTITY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    id               text NOT NULL,
    event_type       text NOT NULL,
    subject_id       text NOT NULL,
    -- The order that the event is about, if it is about one: its JSON at the commit follows the document.
    order_id         text,
    document         bytea NOT NULL,
    trace            text,
    at               timestamptz NOT NULL,
    PRIMARY KEY (transaction, number)
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
    ), counts AS (
        SELECT organisation_id, mode, count(*) AS events, max(at) AS at FROM taken GROUP BY organisation_id, mode
    ), streams AS (
        UPDATE event_streams stream
        SET last_position = last_position + events,
            last_sequence = greatest(last_sequence + interval '1 ms', date_trunc('milliseconds', counts.at))
                            + (events - 1) * interval '1 ms'
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

-- webhooks -----------------------------------------------------------------------------------------------------

-- The types of events that a webhook gets. Empty: the seven that report the status of an order. Null: registered before
-- types could be named; it gets the nine types of that time.
ALTER TABLE webhooks
    ADD COLUMN event_types text[],
    -- Why Tonne has disabled it; null if a person did, or if it is enabled.
    ADD COLUMN disabled_reason text;
ALTER TABLE webhook_scopes ADD COLUMN event_types text[];
