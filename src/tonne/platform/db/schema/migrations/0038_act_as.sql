-- compatible_from: 34

-- users --------------------------------------------------------------------------------------------------------

-- Operators look at the dashboard of an organisation, for a short time and read-only. Rows are kept: the organisation sees them.
CREATE TABLE act_as_periods (
    id               text PRIMARY KEY,
    organisation_id  text NOT NULL REFERENCES organisations,
    -- The operator and the session in which it is valid. Both may be deleted later.
    user_id          text NOT NULL,
    session_id       text NOT NULL,
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    started_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    ended_at         timestamptz
);
CREATE INDEX act_as_periods_of_organisation ON act_as_periods (organisation_id, started_at DESC);
CREATE INDEX act_as_periods_of_session ON act_as_periods (session_id);
