-- compatible_from: 27
-- Trace contexts of events, stored only while tracing is on and for a few days. Not a foreign key: old events may be dropped.

-- events ------------------------------------------------------------------------------------------------------------

CREATE TABLE event_traces (
    organisation_id text NOT NULL,
    mode text NOT NULL,
    position bigint NOT NULL,
    trace text NOT NULL,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, mode, position)
);

CREATE INDEX event_traces_stored ON event_traces (stored_at);
