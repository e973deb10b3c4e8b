-- compatible_from: 34

-- catalog ------------------------------------------------------------------------------------------------------

-- New prices of bundles that a job applies when their time has come.
CREATE TABLE price_changes (
    id                text PRIMARY KEY,
    mode              mode NOT NULL,
    bundle_id         text NOT NULL,
    -- Net price of a tonne, in minor units of the catalogue's currency.
    unit_price_minor  bigint NOT NULL CHECK (unit_price_minor > 0),
    starts_at         timestamptz NOT NULL,
    created_at        timestamptz NOT NULL,
    created_by        text NOT NULL,
    -- When the job looks at it; NULL when it is applied, cancelled or failed.
    next_attempt_at   timestamptz,
    applied_at        timestamptz,
    cancelled_at      timestamptz,
    -- Why it could not be applied.
    failure           text,
    FOREIGN KEY (mode, bundle_id) REFERENCES bundles,
    CHECK ((next_attempt_at IS NULL) = (applied_at IS NOT NULL OR cancelled_at IS NOT NULL OR failure IS NOT NULL)),
    CHECK (num_nonnulls(applied_at, cancelled_at, failure) <= 1)
);
CREATE INDEX price_changes_due ON price_changes (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX price_changes_newest ON price_changes (mode, starts_at DESC, id DESC);
-- One price per bundle and time.
CREATE UNIQUE INDEX price_changes_waiting ON price_changes (mode, bundle_id, starts_at)
    WHERE next_attempt_at IS NOT NULL;

-- backoffice ---------------------------------------------------------------------------------------------------

-- Imports that an operator has prepared in the browser: shown as a preview, then applied or discarded. Rows are deleted
-- after a day.
CREATE TABLE staged_imports (
    id                  text PRIMARY KEY,
    mode                mode NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('confirmations', 'lots', 'catalogue')),
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
