-- compatible_from: 34
-- transaction: none

-- transparency -------------------------------------------------------------------------------------------------

-- The transparency logs: one open log per mode. `tonne log reopen` closes one and opens the next generation.
-- The row is locked by the one writer of the tree.
CREATE TABLE IF NOT EXISTS logs (
    id               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode             mode NOT NULL,
    generation       integer NOT NULL CHECK (generation > 0),
    origin           text NOT NULL UNIQUE,
    -- Entries of the tree, and how many of them the newest checkpoint covers.
    size             bigint NOT NULL DEFAULT 0,
    published_size   bigint NOT NULL DEFAULT 0,
    opened_at        timestamptz NOT NULL,
    closed_at        timestamptz,
    closed_reason    text,
    -- The last signed checkpoint of the generation before, which is also entry 0 of this log.
    previous_head    text,
    -- When the next checkpoint may be published; the end of the lease while a worker publishes one.
    next_publish_at  timestamptz NOT NULL,
    -- Why the last attempt to publish was refused. Null after a success.
    refusal          text,
    refused_at       timestamptz,
    UNIQUE (mode, generation),
    CHECK (published_size BETWEEN 0 AND size),
    CHECK ((generation = 1) = (previous_head IS NULL)),
    CHECK ((closed_at IS NULL) = (closed_reason IS NULL)),
    CHECK ((refusal IS NULL) = (refused_at IS NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS logs_open ON logs (mode) WHERE closed_at IS NULL;

-- What the entries of the logs state. Triggers insert the rows; the worker composes `statement` when it appends the
-- entry. The entry is SHA-256(salt, statement), so it shows nothing.
CREATE TABLE IF NOT EXISTS log_statements (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode         mode NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('retirement', 'certificate.issued', 'certificate.replaced',
                                                'certificate.withdrawn')),
    -- The id of the parcel, or the number of the certificate.
    subject      text NOT NULL,
    -- Above 1 for a retirement that was corrected after it had been logged.
    revision     smallint NOT NULL DEFAULT 1 CHECK (revision > 0),
    at           timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    -- Canonical JSON (RFC 8785), UTF-8.
    statement    bytea,
    salt         bytea CHECK (length(salt) = 32),
    -- Personal values and free texts (JSON). The statement has only their salted hash. Null once they are erased.
    names        text,
    names_salt   bytea CHECK (length(names_salt) = 32),
    log_id       integer,
    position     bigint CHECK (position >= 0),
    UNIQUE (mode, kind, subject, revision),
    UNIQUE (log_id, position),
    CHECK ((log_id IS NULL) = (position IS NULL)),
    CHECK ((statement IS NULL) = (salt IS NULL) AND (log_id IS NULL OR statement IS NOT NULL)),
    CHECK (names_salt IS NULL OR names IS NOT NULL)
);
CREATE INDEX IF NOT EXISTS log_statements_waiting ON log_statements (mode, id) WHERE log_id IS NULL;

-- Tiles of the trees (c2sp.org/tlog-tiles): up to 256 hashes of 32 bytes. Only the last tile of each level grows.
CREATE TABLE IF NOT EXISTS log_tiles (
    log_id  integer NOT NULL,
    level   smallint NOT NULL,
    number  bigint NOT NULL,
    hashes  bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
    PRIMARY KEY (log_id, level, number)
);
-- Bundles of up to 256 entries, each with its length before it. Only the last one grows.
CREATE TABLE IF NOT EXISTS log_entries (
    log_id   integer NOT NULL,
    number   bigint NOT NULL,
    entries  bytea NOT NULL,
    PRIMARY KEY (log_id, number)
);
-- Published checkpoints. They never change: the proof of an entry is against the first one that covers it.
CREATE TABLE IF NOT EXISTS log_checkpoints (
    log_id        integer NOT NULL REFERENCES logs,
    size          bigint NOT NULL CHECK (size > 0),
    root          bytea NOT NULL CHECK (length(root) = 32),
    -- The signed note, with the signatures of witnesses.
    note          text NOT NULL,
    published_at  timestamptz NOT NULL,
    PRIMARY KEY (log_id, size)
);

-- Triggers, because servers of the previous release also issue certificates while the release changes.
CREATE OR REPLACE FUNCTION log_new_certificates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_statements (mode, kind, subject, at)
    SELECT mode, 'certificate.issued', number, issued_at FROM added ORDER BY issued_at, number
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER certificates_are_logged AFTER INSERT ON certificates
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION log_new_certificates();

-- The reason is stored now: a later change of the state overwrites it.
CREATE OR REPLACE FUNCTION log_changed_certificate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_statements (mode, kind, subject, at, names)
    VALUES (NEW.mode, 'certificate.' || NEW.state, NEW.number, NEW.state_changed_at,
            json_build_object('reason', NEW.state_reason)::text)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER certificate_changes_are_logged AFTER UPDATE ON certificates FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state <> 'valid') EXECUTE FUNCTION log_changed_certificate();

-- Only the erasure of a person changes the texts of a certificate. The rows are updated whether they have names or not:
-- a worker may be adding them, and the update then waits for it.
CREATE OR REPLACE FUNCTION erase_logged_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE log_statements SET names = NULL, names_salt = NULL
    WHERE mode = NEW.mode AND subject = NEW.number
      AND kind IN ('certificate.issued', 'certificate.replaced', 'certificate.withdrawn');
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER logged_names_are_erased AFTER UPDATE ON certificates FOR EACH ROW
    WHEN (OLD.record <> NEW.record OR (OLD.state = NEW.state AND OLD.state_reason IS DISTINCT FROM NEW.state_reason))
    EXECUTE FUNCTION erase_logged_names();

-- Credits that were retired in advance are retired when they are allocated.
CREATE OR REPLACE FUNCTION log_new_retirements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_statements (mode, kind, subject, at)
    SELECT mode, 'retirement', id, coalesce(retired_at, opened_at) FROM added WHERE status = 'retired' ORDER BY id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER new_retirements_are_logged AFTER INSERT ON parcels
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION log_new_retirements();

-- A retirement that is corrected before a certificate states it is logged again. Without the lock, a worker that
-- appends the old facts just now would not be noticed.
CREATE OR REPLACE FUNCTION log_retirement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last record;
BEGIN
    SELECT revision, log_id INTO last FROM log_statements
    WHERE mode = NEW.mode AND kind = 'retirement' AND subject = NEW.id
    ORDER BY revision DESC LIMIT 1 FOR UPDATE;
    IF last.revision IS NULL OR last.log_id IS NOT NULL THEN
        INSERT INTO log_statements (mode, kind, subject, revision, at)
        VALUES (NEW.mode, 'retirement', NEW.id, coalesce(last.revision, 0) + 1, coalesce(NEW.retired_at, now()))
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER retirements_are_logged AFTER UPDATE ON parcels FOR EACH ROW
    WHEN (NEW.status = 'retired'
          AND (OLD.status, OLD.lot_id, OLD.start_grams, OLD.quantity_grams, OLD.retired_on, OLD.retirement_url)
              IS DISTINCT FROM
              (NEW.status, NEW.lot_id, NEW.start_grams, NEW.quantity_grams, NEW.retired_on, NEW.retirement_url))
    EXECUTE FUNCTION log_retirement();

-- Retirements and certificates from before the triggers, in the order in which they happened. A second run adds nothing.
-- repeat until it changes no row
INSERT INTO log_statements (mode, kind, subject, at, names)
SELECT mode, kind, subject, at, names
FROM (SELECT mode, 'retirement' AS kind, id AS subject, coalesce(retired_at, opened_at) AS at, NULL AS names
      FROM parcels WHERE status = 'retired'
      UNION ALL
      SELECT mode, 'certificate.issued', number, issued_at, NULL FROM certificates
      UNION ALL
      SELECT mode, 'certificate.' || state, number, state_changed_at, json_build_object('reason', state_reason)::text
      FROM certificates WHERE state <> 'valid') AS event
ORDER BY at, kind = 'retirement' DESC, kind, subject
ON CONFLICT DO NOTHING;
