-- compatible_from: 27
-- transaction: none
-- Of an event only the document is stored, compressed. The rest of its JSON is built from the columns. Older releases
-- read and write the column `payload`: stop them before.

-- The JSON of the subject of the event: compressed, or plain if the event was written before this file.
ALTER TABLE events ADD COLUMN IF NOT EXISTS document bytea;
ALTER TABLE IF EXISTS events ALTER COLUMN payload DROP NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_without_document ON events (organisation_id, mode, position)
    WHERE document IS NULL;

-- The payload ends with `,"data":{"order":DOCUMENT}}`, and nothing before contains `"data":`.
-- repeat until it changes no row
UPDATE events SET payload = NULL, document = convert_to(
    substr(payload, start, length(payload) - start - 1), 'UTF8')
FROM (SELECT organisation_id, mode, position,
             strpos(payload, '"data":{') + length('"data":{"":') + length(split_part(event_type, '.', 1)) AS start
      FROM events WHERE document IS NULL LIMIT 2000) AS old
WHERE events.organisation_id = old.organisation_id AND events.mode = old.mode AND events.position = old.position;

DROP INDEX CONCURRENTLY IF EXISTS events_without_document;

-- An account belongs to one organisation and mode: its id is enough.
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_by_account ON events (account_id, position);
DROP INDEX CONCURRENTLY IF EXISTS events_of_account;

-- Ids start with the time: new ones are next to each other, on pages that are in memory. They are also random, so no
-- constraint is needed to make them unique, and entries need no organisation.
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_in_order_of_id ON events (id);
DROP INDEX CONCURRENTLY IF EXISTS events_by_id;

ALTER TABLE events DROP CONSTRAINT IF EXISTS events_have_document,
    ADD CONSTRAINT events_have_document CHECK (document IS NOT NULL) NOT VALID;
ALTER TABLE events VALIDATE CONSTRAINT events_have_document;
