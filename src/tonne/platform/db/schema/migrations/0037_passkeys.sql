-- compatible_from: 34

-- users --------------------------------------------------------------------------------------------------------

-- Passkeys of users (WebAuthn). The private key never leaves the user's device.
CREATE TABLE passkeys (
    id             text PRIMARY KEY,
    user_id        text NOT NULL REFERENCES users,
    credential_id  bytea NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
    public_key     bytea NOT NULL,
    -- Rises with every use, or is always 0. A lower number than the last one means that the key was copied.
    sign_count     bigint NOT NULL,
    -- The domain for which the browser offers it.
    domain         text NOT NULL,
    name           text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    -- Whether the device copies it to other devices of the same person.
    is_synced      boolean NOT NULL,
    created_at     timestamptz NOT NULL,
    last_used_at   timestamptz
);
CREATE INDEX passkeys_of_user ON passkeys (user_id, created_at);

-- What a passkey must sign. Each works once, in the browser that asked for it.
CREATE TABLE passkey_challenges (
    -- The hash of the purpose with the session, or with the token of forms before there is a session.
    binding     bytea PRIMARY KEY CHECK (length(binding) = 32),
    challenge   bytea NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX passkey_challenges_expired ON passkey_challenges (expires_at);

-- Users who sign in by OpenID Connect: the account at the provider that belongs to the user.
CREATE TABLE user_identities (
    issuer        text NOT NULL,
    subject       text NOT NULL,
    user_id       text NOT NULL REFERENCES users,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX user_identities_of_user ON user_identities (user_id, issuer);
