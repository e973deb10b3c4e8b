-- Webhooks: a log and a cursor. An event is stored once, however many receivers there are; a webhook is one row of state.

CREATE TABLE organisation_admins (
    organisation_id  text NOT NULL REFERENCES organisations,
    email            text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, email)
);

CREATE TABLE webhooks (
    organisation_id      text NOT NULL,
    mode                 mode NOT NULL,
    id                   text NOT NULL UNIQUE,
    url                  text NOT NULL CHECK (length(url) <= 2048),
    enabled              boolean NOT NULL DEFAULT true,
    -- Empty: all accounts of the organisation in this mode.
    account_ids          text[] NOT NULL DEFAULT '{}',
    created_at           timestamptz NOT NULL,
    deleted_at           timestamptz,
    secret_box           bytea NOT NULL,
    secret_last_four     text NOT NULL CHECK (length(secret_last_four) = 4),
    -- During a rotation both secrets sign.
    old_secret_box       bytea,
    old_secret_until     timestamptz,

    -- Every event up to here was acknowledged, skipped on record, out of scope, or waits in a parked lane.
    cursor_position      bigint NOT NULL,
    -- The first event after the cursor has been refused this often, alone.
    head_refusals        integer NOT NULL DEFAULT 0,
    batch_limit          integer NOT NULL DEFAULT 100 CHECK (batch_limit BETWEEN 1 AND 100),
    failures             integer NOT NULL DEFAULT 0,
    failing_since        timestamptz,
    alerts_sent          smallint NOT NULL DEFAULT 0,
    next_attempt_at      timestamptz NOT NULL,
    last_attempt_at      timestamptz,

    -- Since the first day, for the metrics.
    acknowledged_count   bigint NOT NULL DEFAULT 0,
    refused_count        bigint NOT NULL DEFAULT 0,

    -- Who may settle: a worker holds the webhook until lease_until, and settles only with the newest token. Any change
    -- of the registration raises the version: a request under way then moves no cursor, and its events go out again.
    lease_token          bigint NOT NULL DEFAULT 0,
    lease_until          timestamptz,
    version              bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
) WITH (fillfactor = 50);
CREATE INDEX webhooks_in_use ON webhooks (organisation_id, mode) WHERE deleted_at IS NULL;

-- What a webhook's scope was from which position on: the filter may change, the past does not.
CREATE TABLE webhook_scopes (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    from_position    bigint NOT NULL,
    account_ids      text[] NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, from_position)
);

-- An account whose next event the receiver keeps refusing while it takes others: only its events wait.
CREATE TABLE webhook_parked (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    account_id       text NOT NULL,
    -- The event that is refused; those of this account from here on are not in the main lane.
    position         bigint NOT NULL,
    refusals         integer NOT NULL,
    parked_at        timestamptz NOT NULL,
    alerts_sent      smallint NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, account_id)
);

-- A person decided that a receiver goes on without an event. A later rewind past it, also a decision, brings it again.
CREATE TABLE webhook_skips (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    position         bigint NOT NULL,
    skipped_at       timestamptz NOT NULL,
    skipped_by       text NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, position)
);

CREATE TABLE webhook_attempts (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    id               text NOT NULL,
    at               timestamptz NOT NULL,
    positions        bigint[] NOT NULL,
    -- The HTTP status, or null and an error when no answer came.
    status           smallint,
    error            text,
    acknowledged     boolean NOT NULL,
    duration_ms      integer NOT NULL,
    answer           text,
    -- Also the order in which they are listed.
    PRIMARY KEY (organisation_id, webhook_id, at, id)
);

CREATE INDEX webhook_attempts_by_age ON webhook_attempts USING brin (at);

-- Reading events by their id, and those of an account in order.
CREATE UNIQUE INDEX events_by_id ON events (organisation_id, mode, id);
CREATE INDEX events_of_account ON events (organisation_id, mode, account_id, position);

-- Mail leaves from here: a row that is not sent is tried again.
CREATE TABLE mails (
    id               text PRIMARY KEY,
    organisation_id  text NOT NULL,
    recipients       text[] NOT NULL CHECK (cardinality(recipients) > 0),
    message          bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz,
    lease_token      bigint NOT NULL DEFAULT 0,
    last_error       text,
    sent_at          timestamptz
);
CREATE INDEX mails_to_send ON mails (next_attempt_at) WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL;
