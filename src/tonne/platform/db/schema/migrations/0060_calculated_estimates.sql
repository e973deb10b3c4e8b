-- compatible_from: 34

-- factors ------------------------------------------------------------------------------------------------------

-- Imported emission factors. A row is a version and never changes; those of the package are version 1 and not here.
CREATE TABLE emission_factors (
    id            text NOT NULL,
    version       integer NOT NULL CHECK (version > 0),
    category      text NOT NULL,
    activity      text NOT NULL,
    unit          text NOT NULL,
    kg_per_unit   numeric NOT NULL CHECK (kg_per_unit >= 0),
    well_to_tank  numeric CHECK (well_to_tank >= 0),
    region        text NOT NULL,
    year          integer NOT NULL,
    source        text NOT NULL,
    source_code   text NOT NULL,
    licence       text NOT NULL,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (id, version)
);

-- estimates ----------------------------------------------------------------------------------------------------

-- `kind` is null for estimates that clients calculated. `version` is the one that orders use.
-- Annotations: whether the estimated activity has really taken place, and when.
ALTER TABLE estimates
    ADD COLUMN kind text,
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN is_actual boolean,
    ADD COLUMN occurred_at timestamptz;

-- Every version of an estimate that Tonne calculated: the request as it was sent, and the result with the factors.
CREATE TABLE estimate_versions (
    account_id  text NOT NULL,
    id          text NOT NULL,
    version     integer NOT NULL CHECK (version > 0),
    mass_grams  bigint NOT NULL CHECK (mass_grams BETWEEN 1 AND 100000000000000),
    request     text NOT NULL,
    result      text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id, version)
);
