-- compatible_from: 1
-- A release that does not know this table cannot open secrets that a newer one has sealed: webhooks registered during an
-- upgrade deliver once the last old worker has stopped.

-- webhooks -----------------------------------------------------------------------------------------------------

-- Keys with which secrets in this database may be sealed. A process that lacks one of them refuses to start: it could
-- not sign requests to webhooks. Only ids are stored, which do not reveal the keys.
CREATE TABLE secret_keys (
    id           text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    recorded_at  timestamptz NOT NULL DEFAULT now()
);
