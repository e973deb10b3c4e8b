-- compatible_from: 6

-- privacy ------------------------------------------------------------------------------------------------------

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
CREATE INDEX erasures_newest ON erasures (started_at, id);

-- Partitions that were dropped. `file_name` is that of their archive, null if there is none.
CREATE TABLE removed_partitions (
    name        text PRIMARY KEY,
    table_name  text NOT NULL,
    starts_at   timestamptz,
    ends_at     timestamptz NOT NULL,
    row_count   bigint NOT NULL,
    removed_at  timestamptz NOT NULL,
    removed_by  text NOT NULL,
    file_name   text,
    byte_count  bigint,
    sha256      text,
    CHECK (num_nonnulls(file_name, byte_count, sha256) IN (0, 3))
);

-- The first partitions of the tables that are partitioned by month: this month, which also gets rows with an earlier
-- time, and the next month. A job creates the later ones in the same way.
DO $$
DECLARE
    this_month timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
    table_name text;
    month timestamp;
    partition text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY ['events', 'mails', 'tax_document_files', 'webhook_attempts'] LOOP
        FOREACH month IN ARRAY ARRAY [this_month, this_month + interval '1 month'] LOOP
            partition := table_name || to_char(month, '_YYYY_MM');
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', partition, table_name || '_default');
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%L)', table_name, partition,
                           CASE month WHEN this_month THEN 'MINVALUE' ELSE quote_literal(month AT TIME ZONE 'UTC') END,
                           (month + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END
$$;

-- lookup -------------------------------------------------------------------------------------------------------

-- The results of complete runs of `tonne doctor`. `findings` are the checks that were not ok, without the objects.
CREATE TABLE doctor_runs (
    id           text PRIMARY KEY,
    finished_at  timestamptz NOT NULL,
    actor        text NOT NULL,
    -- The run was limited to changes since this time.
    since        timestamptz,
    status       text NOT NULL CHECK (status IN ('ok', 'warning', 'broken', 'failed')),
    checks       integer NOT NULL CHECK (checks > 0),
    findings     jsonb NOT NULL
);
CREATE INDEX doctor_runs_by_time ON doctor_runs (finished_at);

-- backoffice ---------------------------------------------------------------------------------------------------

-- Imports that an operator has prepared in the browser: shown as a preview, then applied or discarded. Rows are deleted
-- after a day.
CREATE TABLE staged_imports (
    id                  text PRIMARY KEY,
    mode                mode NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('confirmations', 'confirmed_lines', 'lots', 'catalogue')),
    -- The registry's number of a retirement, for the audit log.
    reference           text,
    -- Accept exchange rates that differ much from the previous ones.
    allow_large_change  boolean NOT NULL DEFAULT false,
    -- Of the first catalogue of a mode.
    currency            text,
    staged_at           timestamptz NOT NULL,
    staged_by           text NOT NULL,
    applied_at          timestamptz,
    -- What the import did (JSON).
    result              bytea,
    CHECK ((applied_at IS NULL) = (result IS NULL))
);
CREATE INDEX staged_imports_by_time ON staged_imports (staged_at);

-- Deleted when the import is applied.
CREATE TABLE staged_files (
    import_id  text NOT NULL REFERENCES staged_imports ON DELETE CASCADE,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    content    bytea NOT NULL,
    PRIMARY KEY (import_id, name)
);
