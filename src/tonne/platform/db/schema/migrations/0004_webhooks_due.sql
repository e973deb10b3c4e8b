-- compatible_from: 1
-- With these, workers find due webhooks without reading the idle ones.

-- When waiting events are due. Null: no event waits, so only new ones make the webhook due.
ALTER TABLE webhooks ADD COLUMN due_at timestamptz;
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_parked_due ON webhook_parked (next_attempt_at);
-- BRIN, so that appending events still updates the row without new index entries (HOT; from PostgreSQL 16 on). One page
-- per range: only pages with a stream that changed are read.
CREATE INDEX event_streams_recent ON event_streams USING brin (last_sequence)
    WITH (pages_per_range = 1, autosummarize = on);
