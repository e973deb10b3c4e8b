-- compatible_from: 34

-- transparency -------------------------------------------------------------------------------------------------

-- What the witnesses of the settings have cosigned of each log. A new row is due at once.
CREATE TABLE log_witnesses (
    log_id           integer NOT NULL REFERENCES logs,
    vkey             text NOT NULL,
    -- The last checkpoint that it has cosigned: its size, the signature line, and when.
    size             bigint NOT NULL DEFAULT 0,
    cosignature      text,
    cosigned_at      timestamptz,
    -- Since when it has not cosigned, and why.
    failing_since    timestamptz,
    failures         integer NOT NULL DEFAULT 0,
    problem          text,
    detail           text,
    -- When it is asked again; null while it cosigns, because then it is asked about every checkpoint.
    next_attempt_at  timestamptz,
    PRIMARY KEY (log_id, vkey),
    CHECK ((cosignature IS NULL) = (cosigned_at IS NULL) AND (cosignature IS NULL) = (size = 0)),
    CHECK ((failing_since IS NULL) = (problem IS NULL) AND (failing_since IS NULL) = (failures = 0))
);
