-- compatible_from: 27

-- accounts -----------------------------------------------------------------------------------------------------

-- What the key may do besides what every key may do. `persons`: export and erase the data of persons, live keys only.
ALTER TABLE api_keys ADD COLUMN rights text[] NOT NULL DEFAULT '{}';

-- persons ------------------------------------------------------------------------------------------------------

-- Erasures of persons. The person is known only by a salted hash, so that an erasure can be repeated after a restore.
CREATE TABLE erasures (
    id               text PRIMARY KEY,
    -- Null: an operator erased the person in all organisations, or in both modes.
    organisation_id  text,
    mode             mode,
    -- By what the person was found.
    found_by         text NOT NULL CHECK (found_by IN ('email', 'name')),
    -- The same for all erasures of the service.
    salt             bytea NOT NULL CHECK (length(salt) = 32),
    person_hash      bytea NOT NULL CHECK (length(person_hash) = 32),
    started_at       timestamptz NOT NULL,
    started_by       text NOT NULL,
    -- Null: it was interrupted. The same request or command continues it.
    finished_at      timestamptz,
    -- How many rows of each kind were changed.
    counts           jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX erasures_newest ON erasures (started_at DESC, id DESC);
