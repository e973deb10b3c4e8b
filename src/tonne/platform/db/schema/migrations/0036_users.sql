-- compatible_from: 34

-- users --------------------------------------------------------------------------------------------------------

-- The people who sign in to the dashboard. A user may belong to several organisations, or be an operator.
CREATE TABLE users (
    id             text PRIMARY KEY,
    -- In lower case.
    email          text NOT NULL UNIQUE CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name           text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    -- Argon2id. NULL: the user has not chosen a password, or signs in by other means only.
    password_hash  text,
    is_operator    boolean NOT NULL DEFAULT false,
    -- A user of the demo, who signs in from the same machine only.
    is_demo        boolean NOT NULL DEFAULT false,
    -- The secret of the authenticator app, sealed; it counts once it is confirmed by a first code.
    totp_box       bytea,
    totp_enabled   boolean NOT NULL DEFAULT false CHECK (NOT totp_enabled OR totp_box IS NOT NULL),
    -- The time step of the last code that was accepted: a code is valid once.
    totp_step      bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL,
    disabled_at    timestamptz
);

CREATE TABLE memberships (
    organisation_id  text NOT NULL REFERENCES organisations,
    user_id          text NOT NULL REFERENCES users,
    role             text NOT NULL CHECK (role IN ('owner', 'admin', 'finance', 'developer', 'read_only')),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id);

-- Only the hash of a session's token is stored. Rows are kept for a while after their end, for the list of sessions.
CREATE TABLE user_sessions (
    id            text PRIMARY KEY,
    user_id       text NOT NULL REFERENCES users,
    token_hash    bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    -- False between the password and the second factor.
    is_complete   boolean NOT NULL,
    -- Whether the user gave a second factor at this sign-in.
    is_strong     boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    address       text NOT NULL,
    agent         text NOT NULL
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id, created_at);
CREATE INDEX user_sessions_expired ON user_sessions (expires_at);

CREATE TABLE recovery_codes (
    user_id    text NOT NULL REFERENCES users,
    code_hash  bytea NOT NULL CHECK (length(code_hash) = 32),
    used_at    timestamptz,
    PRIMARY KEY (user_id, code_hash)
);

-- Links in mails: an invitation to an organisation, or a new password.
CREATE TABLE user_links (
    id               text PRIMARY KEY,
    token_hash       bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    kind             text NOT NULL CHECK (kind IN ('invitation', 'password_reset')),
    email            text NOT NULL CHECK (email = lower(email)),
    organisation_id  text REFERENCES organisations,
    role             text,
    -- The actor who sent it.
    created_by       text NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    used_at          timestamptz,
    revoked_at       timestamptz,
    CHECK ((kind = 'invitation') = (organisation_id IS NOT NULL AND role IS NOT NULL))
);
CREATE INDEX user_links_of_organisation ON user_links (organisation_id, created_at) WHERE kind = 'invitation';
CREATE INDEX user_links_of_email ON user_links (email);
CREATE INDEX user_links_expired ON user_links (expires_at);
