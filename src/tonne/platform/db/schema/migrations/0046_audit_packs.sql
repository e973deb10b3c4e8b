-- compatible_from: 34

-- packs --------------------------------------------------------------------------------------------------------

-- ZIP files with the certificates of a period, made by the worker and kept for some days.
CREATE TABLE audit_packs (
    organisation_id  text NOT NULL REFERENCES organisations,
    mode             mode NOT NULL,
    id               text NOT NULL UNIQUE,
    -- Days of issue, in UTC.
    first_day        date NOT NULL,
    last_day         date NOT NULL CHECK (last_day >= first_day),
    status           text NOT NULL CHECK (status IN ('waiting', 'ready', 'failed')),
    -- Certificates so far, and in all once they are counted.
    done             integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    total            integer CHECK (total >= 0),
    bytes            bigint CHECK (bytes > 0),
    failures         integer NOT NULL DEFAULT 0,
    -- The actor of the audit log.
    requested_by     text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- When a worker makes it, or may take it over from another.
    next_attempt_at  timestamptz CHECK ((next_attempt_at IS NOT NULL) = (status = 'waiting')),
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, id)
);
CREATE INDEX audit_packs_due ON audit_packs (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX audit_packs_by_expiry ON audit_packs (expires_at);

-- The file in pieces, so that neither side holds all of it in memory.
CREATE TABLE audit_pack_parts (
    organisation_id  text NOT NULL,
    pack_id          text NOT NULL,
    number           integer NOT NULL CHECK (number >= 0),
    content          bytea NOT NULL,
    PRIMARY KEY (organisation_id, pack_id, number),
    FOREIGN KEY (organisation_id, pack_id) REFERENCES audit_packs ON DELETE CASCADE
);
-- ZIP files do not compress any more.
ALTER TABLE audit_pack_parts ALTER COLUMN content SET STORAGE EXTERNAL;
