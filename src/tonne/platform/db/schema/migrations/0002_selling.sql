-- compatible_from: 6

-- accounts -----------------------------------------------------------------------------------------------------

CREATE TABLE organisations (
    id             text PRIMARY KEY,
    name           text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    -- The postal address printed on invoices.
    address        text NOT NULL DEFAULT '' CHECK (length(address) <= 1000),
    fee_rate       numeric(6, 5) NOT NULL DEFAULT 0.10 CHECK (fee_rate >= 0 AND fee_rate < 1),
    created_at     timestamptz NOT NULL,
    -- For a closed organisation or account nothing new is ordered. Open orders finish, and the data stays.
    closed_at      timestamptz,
    closed_reason  text CHECK (length(closed_reason) BETWEEN 1 AND 500),
    CHECK ((closed_at IS NULL) = (closed_reason IS NULL))
);

-- What an organisation sets separately for each mode; a bundle belongs to one mode only.
CREATE TABLE organisation_modes (
    organisation_id           text NOT NULL REFERENCES organisations,
    mode                      mode NOT NULL,
    default_bundle_selection  jsonb,
    PRIMARY KEY (organisation_id, mode)
);

-- Recipients of invoices and of alerts about failing webhooks.
CREATE TABLE organisation_admins (
    organisation_id  text NOT NULL REFERENCES organisations,
    email            text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, email)
);

-- Hosts to which an organisation's checkouts may redirect the customer.
CREATE TABLE redirect_hosts (
    organisation_id  text NOT NULL REFERENCES organisations,
    host             text NOT NULL CHECK (host = lower(host) AND length(host) BETWEEN 1 AND 253),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, host)
);

-- The accounts that place orders. Accounts are never deleted.
CREATE TABLE accounts (
    organisation_id            text NOT NULL,
    id                         text NOT NULL UNIQUE,
    mode                       mode NOT NULL,
    kind                       text NOT NULL CHECK (kind IN ('account', 'client_account')),
    name                       text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    currency                   currency NOT NULL,
    beneficiary                text NOT NULL CHECK (length(beneficiary) BETWEEN 1 AND 200),
    payment_method             text NOT NULL DEFAULT 'invoice' CHECK (payment_method IN ('invoice', 'card')),
    default_bundle_selection   jsonb,
    -- Whether the worker processes the orders of a test account, or they wait for the test helpers. Always true in live
    -- mode.
    auto_advance               boolean NOT NULL DEFAULT true CHECK (auto_advance OR mode = 'test'),
    created_at                 timestamptz NOT NULL,
    -- A test account may simulate short supply: its orders above this quantity wait in `paid`. Null: it does not.
    simulated_supply_grams     bigint CHECK (simulated_supply_grams BETWEEN 0 AND 100000000000000),
    -- When orders are billed: each on an invoice of its own, or together at the end of the month (UTC), or earlier, as
    -- soon as they reach the threshold.
    billing                    text NOT NULL DEFAULT 'per_order'
                                   CHECK (billing IN ('per_order', 'monthly', 'threshold')),
    billing_threshold_minor    bigint CHECK (billing_threshold_minor > 0),
    -- Whether orders are fulfilled once they are paid, or at once within the credit limit.
    fulfil                     text NOT NULL DEFAULT 'on_payment' CHECK (fulfil IN ('on_payment', 'on_order')),
    credit_limit_minor         bigint CHECK (credit_limit_minor > 0),
    -- What becomes of orders that are too small for a card payment of their own.
    small_card_orders          text NOT NULL DEFAULT 'service'
                                   CHECK (small_card_orders IN ('service', 'fulfil_first', 'collect_first', 'refuse')),
    refunds_by_api             boolean NOT NULL DEFAULT false,
    -- How many hours a paid order waits until it is fulfilled, and can be cancelled or reduced; `manual`: until its
    -- client releases it. Null: it does not wait.
    fulfil_delay               text CHECK (fulfil_delay = 'manual' OR fulfil_delay ~ '^[1-9][0-9]{0,3}$'),
    -- Who gets a receipt for each order that is paid by the stored card, and who is mailed about problems with the card.
    -- Without card_email, the admins of the organisation are.
    receipt_email              text CHECK (length(receipt_email) <= 254),
    card_email                 text CHECK (length(card_email) <= 254),
    closed_at                  timestamptz,
    closed_reason              text CHECK (length(closed_reason) BETWEEN 1 AND 500),
    -- In the account's currency; null: no limit, and the minimum of the settings.
    monthly_limit_minor        bigint CHECK (monthly_limit_minor >= 0),
    minimum_order_minor        bigint CHECK (minimum_order_minor >= 0),
    -- The language of its orders, unless their customers chose another.
    language                   text NOT NULL DEFAULT 'en',
    -- False: the beneficiary is the account's name.
    has_own_beneficiary        boolean NOT NULL DEFAULT true,
    handle                     text,
    external_pages_visibility  text NOT NULL DEFAULT 'public',
    -- The account of the other mode that was opened together with this one.
    sibling_id                 text,
    idempotency_key            text,
    reference                  text,
    -- Since then nothing new is ordered.
    archived_at                timestamptz,
    logo                       bytea CHECK (length(logo) <= 131072),
    logo_media_type            text CHECK (logo_media_type IN ('image/png', 'image/jpeg', 'image/webp')),
    -- The beginning of the hash of the logo: its addresses contain it.
    logo_version               text,
    PRIMARY KEY (organisation_id, id),
    -- Referenced together with the mode, so that no row can refer to an account of the other mode.
    UNIQUE (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes,
    CHECK (simulated_supply_grams IS NULL OR mode = 'test'),
    CHECK ((billing = 'threshold') = (billing_threshold_minor IS NOT NULL)),
    CHECK (fulfil = 'on_payment' OR credit_limit_minor IS NOT NULL),
    -- Orders that a card pays are not fulfilled before the card is charged, except for the smallest.
    CHECK (payment_method = 'invoice' OR fulfil = 'on_payment'),
    CHECK ((closed_at IS NULL) = (closed_reason IS NULL)),
    CHECK ((logo IS NULL) = (logo_media_type IS NULL) AND (logo IS NULL) = (logo_version IS NULL))
);
CREATE UNIQUE INDEX accounts_by_handle
    ON accounts (organisation_id, mode, lower(handle)) WHERE handle IS NOT NULL;
CREATE UNIQUE INDEX accounts_by_idempotency_key
    ON accounts (organisation_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- API keys. Only the hash of the secret is stored.
CREATE TABLE api_keys (
    organisation_id      text NOT NULL,
    id                   text NOT NULL,
    mode                 mode NOT NULL,
    default_account_id   text NOT NULL,
    name                 text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    secret_hash          bytea NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    last_four            text NOT NULL CHECK (length(last_four) = 4),
    created_at           timestamptz NOT NULL,
    last_used_at         timestamptz,
    revoked_at           timestamptz,
    -- In the currency of the key's default account.
    monthly_limit_minor  bigint CHECK (monthly_limit_minor >= 0),
    -- What the key may do besides what every key may do. `persons`: export and erase the data of persons, live keys only.
    rights               text[] NOT NULL DEFAULT '{}',
    -- Such as orders:write. Null: everything, except what needs a right.
    permissions          text[],
    -- Null: all accounts of the organisation and mode.
    account_ids          text[],
    -- Empty: from everywhere.
    networks             cidr[] NOT NULL DEFAULT '{}',
    expires_at           timestamptz,
    -- The actor.
    created_by           text,
    -- The key that a rotation has created. This one then works until expires_at.
    replaced_by          text,
    -- The first key of a chain of rotations: what its keys order counts as one sum. Null: the key itself.
    limit_key_id         text,
    PRIMARY KEY (organisation_id, id),
    FOREIGN KEY (organisation_id, mode, default_account_id) REFERENCES accounts (organisation_id, mode, id)
);

CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE revoked_at IS NULL AND replaced_by IS NULL;

-- In test mode, customers get mail only at these addresses and at those of the organisation's admins.
CREATE TABLE test_mail_addresses (
    organisation_id  text NOT NULL REFERENCES organisations,
    email            text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, email)
);

-- An organisation without a row, or without a treatment, is taxed as the seller's settings say.
CREATE TABLE tax_profiles (
    organisation_id  text PRIMARY KEY REFERENCES organisations,
    treatment        text CHECK (treatment IN ('none', 'standard', 'reverse_charge', 'exempt', 'outside_scope')),
    -- As a share: 0.19 is 19 %.
    rate             numeric(6, 5) CHECK (rate > 0 AND rate <= 1),
    country          text CHECK (country ~ '^[A-Z]{2}$'),
    tax_id           text CHECK (length(tax_id) BETWEEN 1 AND 50),
    legal_note       text CHECK (length(legal_note) BETWEEN 1 AND 500),
    -- Printed on invoices: a purchase order number, or the Leitweg-ID of a public buyer.
    buyer_reference  text CHECK (length(buyer_reference) BETWEEN 1 AND 100),
    street           text CHECK (length(street) BETWEEN 1 AND 200),
    postcode         text CHECK (length(postcode) BETWEEN 1 AND 20),
    city             text CHECK (length(city) BETWEEN 1 AND 100),
    -- The electronic invoice that is wanted beside the PDF, and the electronic address to which it goes.
    einvoice         text CHECK (einvoice IN ('peppol', 'xrechnung')),
    endpoint         text CHECK (length(endpoint) BETWEEN 4 AND 105),
    CHECK ((treatment IS NOT DISTINCT FROM 'standard') = (rate IS NOT NULL)),
    CHECK (treatment IS DISTINCT FROM 'reverse_charge' OR (country IS NOT NULL AND tax_id IS NOT NULL))
);

-- Standard rates of VAT that were imported. Countries without rows have the rates of the package.
CREATE TABLE tax_rates (
    country      text NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    valid_from   date NOT NULL,
    -- As a share: 0.19 is 19 %.
    rate         numeric(6, 5) NOT NULL CHECK (rate > 0 AND rate <= 1),
    source       text NOT NULL CHECK (length(source) BETWEEN 1 AND 100),
    imported_at  timestamptz NOT NULL,
    PRIMARY KEY (country, valid_from)
);

-- What a register of VAT ids said, or what a person has read there. It proves that no tax was due: rows are kept as long
-- as documents.
CREATE TABLE vat_checks (
    id                   text PRIMARY KEY,
    vat_id               text NOT NULL CHECK (length(vat_id) BETWEEN 1 AND 50),
    -- Our own VAT id that was sent: without it, the register gives no consultation number.
    requester            text CHECK (length(requester) BETWEEN 1 AND 50),
    outcome              text NOT NULL CHECK (outcome IN ('valid', 'invalid', 'unavailable')),
    name                 text CHECK (length(name) BETWEEN 1 AND 500),
    address              text CHECK (length(address) BETWEEN 1 AND 500),
    consultation_number  text CHECK (length(consultation_number) BETWEEN 1 AND 100),
    source               text NOT NULL CHECK (source IN ('vies', 'by_hand')),
    checked_at           timestamptz NOT NULL,
    checked_by           text NOT NULL
);
CREATE INDEX vat_checks_of_id ON vat_checks (vat_id, checked_at);

-- What an organisation plans to buy and to spend in a calendar year. It applies until it is changed.
CREATE TABLE yearly_targets (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    target_grams     bigint CHECK (target_grams > 0),
    budget_minor     bigint CHECK (budget_minor > 0),
    budget_currency  currency,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, mode),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes,
    CHECK ((budget_minor IS NULL) = (budget_currency IS NULL))
);

-- Orders of former providers, as an account states them: nobody has verified them, and nothing counts them.
CREATE TABLE history_orders (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    id               text NOT NULL,
    -- What `tonne history undo` removes together.
    import_id        text NOT NULL,
    imported_at      timestamptz NOT NULL,
    provider         text NOT NULL CHECK (length(provider) BETWEEN 1 AND 100),
    external_id      text NOT NULL CHECK (length(external_id) BETWEEN 1 AND 100),
    ordered_on       date NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    amount_minor     bigint CHECK (amount_minor > 0),
    currency         currency,
    link             text CHECK (link LIKE 'https://%' AND length(link) <= 2048),
    PRIMARY KEY (organisation_id, mode, account_id, provider, external_id),
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK ((amount_minor IS NULL) = (currency IS NULL))
);
CREATE INDEX history_orders_of_account ON history_orders (organisation_id, mode, account_id, ordered_on, id);
CREATE INDEX history_orders_of_organisation ON history_orders (organisation_id, mode, ordered_on, id);

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
    -- An operator who may approve what another person requested.
    may_approve    boolean NOT NULL DEFAULT false CHECK (NOT may_approve OR is_operator),
    -- A user of the demo, who signs in from the same machine only.
    is_demo        boolean NOT NULL DEFAULT false,
    -- The secret of the authenticator app, sealed; it counts once it is confirmed by a first code.
    totp_box       bytea,
    totp_enabled   boolean NOT NULL DEFAULT false CHECK (NOT totp_enabled OR totp_box IS NOT NULL),
    -- The time step of the last code that was accepted: a code is valid once.
    totp_step      bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL,
    disabled_at    timestamptz,
    -- Browsers in which the user signed in up to then are no longer known.
    devices_since  timestamptz
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

-- People who asked for a new password, also those whose address nobody has. A job answers and deletes them.
CREATE TABLE password_requests (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email       text NOT NULL,
    -- The actor who asked, with the network address.
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL
);

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

-- Operators look at the dashboard of an organisation, for a short time and read-only. Rows are kept: the organisation
-- sees them.
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
CREATE INDEX act_as_periods_of_organisation ON act_as_periods (organisation_id, started_at);
CREATE INDEX act_as_periods_of_session ON act_as_periods (session_id);

-- Tokens with which operators use the command line as themselves. Only the hash is stored.
CREATE TABLE personal_tokens (
    id          text PRIMARY KEY,
    user_id     text NOT NULL REFERENCES users,
    token_hash  bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL CHECK (expires_at <= created_at + interval '90 days'),
    revoked_at  timestamptz
);
CREATE INDEX personal_tokens_of_user ON personal_tokens (user_id, created_at);

-- What users approved. `digest` is the SHA-256 of what they saw: amount, account, reason and who requested it. After a
-- change of these the approval no longer counts. The requester and the approver are actors, as in the audit log.
CREATE TABLE approvals (
    kind          text NOT NULL CHECK (
        kind IN ('refund', 'return', 'write_off', 'reopening', 'bank_iban', 'limit', 'registry_request')),
    subject_id    text NOT NULL,
    digest        bytea NOT NULL CHECK (length(digest) = 32),
    requested_by  text NOT NULL,
    approved_by   text NOT NULL CHECK (starts_with(approved_by, 'user:usr_')),
    -- The session in the browser, or the personal token.
    session_id    text NOT NULL,
    factor        text NOT NULL CHECK (factor IN ('second_factor', 'token')),
    at            timestamptz NOT NULL,
    PRIMARY KEY (kind, subject_id, digest, approved_by),
    CHECK (approved_by <> requested_by)
);
CREATE TRIGGER approvals_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Settings that two people change together. `value` applies, until they approve what the service is configured with.
CREATE TABLE guarded_settings (
    name          text PRIMARY KEY,
    value         text NOT NULL,
    requested     text CHECK (requested <> value),
    requested_at  timestamptz,
    -- When there were two users who could approve a change, to the hour.
    guarded_at    timestamptz,
    CHECK ((requested IS NULL) = (requested_at IS NULL))
);

-- catalogue ----------------------------------------------------------------------------------------------------

-- One catalogue per mode. Every import increments `version`, so that a process can tell when its copy is stale.
CREATE TABLE catalogues (
    mode                      mode PRIMARY KEY,
    currency                  currency NOT NULL,
    version                   bigint NOT NULL DEFAULT 1,
    default_bundle_selection  jsonb
);

-- Carbon projects, each with its entry at a registry.
CREATE TABLE projects (
    mode                 mode NOT NULL REFERENCES catalogues,
    id                   text NOT NULL UNIQUE,
    registry             text NOT NULL,
    registry_project_id  text NOT NULL,
    name                 text NOT NULL CHECK (length(name) BETWEEN 1 AND 300),
    slug                 text NOT NULL CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
    country              text NOT NULL,
    type                 text NOT NULL,
    methodology          text,
    mechanism            text NOT NULL CHECK (mechanism IN ('avoidance', 'removal')),
    granularity_grams    bigint NOT NULL CHECK (granularity_grams IN (1000, 1000000)),
    description          text,
    image                text,
    registry_url         text,
    created_at           timestamptz NOT NULL,
    picture              text,
    -- What the API tells about a project or a bundle beyond what selling it needs: `selling/catalogue/details.py`.
    details              jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (mode, id),
    UNIQUE (mode, registry, registry_project_id),
    UNIQUE (mode, slug)
);

-- What customers choose: a priced mix of projects.
CREATE TABLE bundles (
    mode              mode NOT NULL REFERENCES catalogues,
    id                text NOT NULL UNIQUE,
    slug              text NOT NULL CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
    name              text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description       text NOT NULL DEFAULT '',
    primary_image     text,
    -- Net price of a tonne, in minor units of the catalogue's currency.
    unit_price_minor  bigint NOT NULL CHECK (unit_price_minor > 0),
    enabled           boolean NOT NULL,
    position          integer NOT NULL,
    created_at        timestamptz NOT NULL,
    picture           text,
    details           jsonb NOT NULL DEFAULT '{}',
    -- When the bundle was taken off sale; null if it is on sale, or never was.
    disabled_at       timestamptz,
    PRIMARY KEY (mode, id),
    UNIQUE (mode, slug)
);

-- The projects of a bundle and their shares of it.
CREATE TABLE bundle_projects (
    mode         mode NOT NULL,
    bundle_id    text NOT NULL,
    project_id   text NOT NULL,
    weight       integer NOT NULL CHECK (weight > 0),
    position     integer NOT NULL,
    -- What orders of the bundle were meant to get of the project, minus what is common to all its projects in proportion
    -- to their weights. Allocation prefers the project that is furthest below its share.
    drawn_grams  bigint NOT NULL DEFAULT 0 CHECK (drawn_grams >= 0),
    PRIMARY KEY (mode, bundle_id, project_id),
    FOREIGN KEY (mode, bundle_id) REFERENCES bundles,
    FOREIGN KEY (mode, project_id) REFERENCES projects
);

-- One unit of `base` costs `rate` units of `quote`. The newest row that is not in the future applies.
CREATE TABLE exchange_rates (
    mode    mode NOT NULL REFERENCES catalogues,
    base    currency NOT NULL,
    quote   currency NOT NULL CHECK (quote <> base),
    as_of   timestamptz NOT NULL,
    rate    numeric(24, 12) NOT NULL CHECK (rate > 0),
    source  text NOT NULL,
    PRIMARY KEY (mode, base, quote, as_of)
);

-- Reference rates for the tax of documents in a foreign currency: one euro is `rate` units of `currency`. They are no
-- offers: prices are converted at `exchange_rates`.
CREATE TABLE reference_rates (
    currency  currency NOT NULL CHECK (currency <> 'EUR'),
    day       date NOT NULL,
    rate      numeric(24, 12) NOT NULL CHECK (rate > 0),
    source    text NOT NULL CHECK (length(source) BETWEEN 1 AND 100),
    PRIMARY KEY (currency, day)
);

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
    -- When the job looks at it; NULL when it is applied or cancelled.
    next_attempt_at   timestamptz,
    applied_at        timestamptz,
    cancelled_at      timestamptz,
    FOREIGN KEY (mode, bundle_id) REFERENCES bundles,
    CHECK ((next_attempt_at IS NULL) = (applied_at IS NOT NULL OR cancelled_at IS NOT NULL)),
    CHECK (num_nonnulls(applied_at, cancelled_at) <= 1)
);
CREATE INDEX price_changes_due ON price_changes (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX price_changes_newest ON price_changes (mode, starts_at, id);
-- One price per bundle and time.
CREATE UNIQUE INDEX price_changes_waiting ON price_changes (mode, bundle_id, starts_at)
    WHERE next_attempt_at IS NOT NULL;

-- Pictures of projects and bundles, in two sizes. Rows are shared by all that have the same
-- picture, in both modes.
CREATE TABLE pictures (
    digest      text NOT NULL CHECK (digest ~ '^[0-9a-f]{32}$'),
    size        text NOT NULL CHECK (size IN ('card', 'wide')),
    content     bytea NOT NULL CHECK (length(content) <= 2097152),
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (digest, size)
);

-- estimates ----------------------------------------------------------------------------------------------------

-- Emission calculations. Estimates and orders have no foreign key to accounts: accounts are never deleted, and a share
-- lock on the account's row for every order would serialise the orders of a busy account.
CREATE TABLE estimates (
    account_id       text NOT NULL,
    id               text NOT NULL,
    idempotency_key  text NOT NULL,
    request_digest   bytea NOT NULL,
    mass_grams       bigint NOT NULL CHECK (mass_grams BETWEEN 1 AND 100000000000000),
    mass_amount      text NOT NULL,
    mass_unit        text NOT NULL CHECK (mass_unit IN ('mg', 'g', 'kg', 't')),
    description      text,
    -- JSON exactly as the client sent it; text keeps the key order and the spelling of numbers.
    metadata         text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- The unit that the quantity of the estimate's quote is cut to.
    quantity_trunc   text,
    -- Null for estimates that clients calculated.
    kind             text,
    -- The one that orders use.
    version          integer NOT NULL DEFAULT 1,
    -- Annotations: whether the estimated activity has really taken place, and when.
    is_actual        boolean,
    occurred_at      timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key)
);
-- Counts and adds up the estimates of an account without reading its rows.
CREATE INDEX estimates_summed ON estimates (account_id) INCLUDE (mass_grams);
-- For the list of an account's shipments, newest first.
CREATE INDEX estimates_of_shipments ON estimates (account_id, created_at, id)
    INCLUDE (is_actual) WHERE kind IN ('shipping', 'shipping/multi-leg');

CREATE FUNCTION count_new_estimates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO estimate_deltas (account_id, day, estimates)
    SELECT account_id, (created_at AT TIME ZONE 'UTC')::date, count(*) FROM added GROUP BY 1, 2;
    RETURN NULL;
END
$$;
CREATE TRIGGER estimates_are_counted AFTER INSERT ON estimates
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_estimates();

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

-- How many estimates an account created on each day (UTC). A trigger appends to `estimate_deltas`, and a worker moves
-- the rows to `estimate_days`. The sum of both is exact at any time.
CREATE TABLE estimate_days (
    account_id  text NOT NULL,
    day         date NOT NULL,
    estimates   bigint NOT NULL,
    PRIMARY KEY (account_id, day)
);

CREATE TABLE estimate_deltas (
    account_id  text NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    day         date NOT NULL,
    estimates   bigint NOT NULL,
    PRIMARY KEY (account_id, id)
);

-- orders -------------------------------------------------------------------------------------------------------

-- `status` selects the job that processes an order, `next_attempt_at` says when.
CREATE TABLE orders (
    account_id                text NOT NULL,
    id                        text NOT NULL,
    -- The order's JSON (UTF-8) as the API returns it, rewritten with every transition, so that reading an order copies
    -- bytes: bytea skips the validation and conversion of text. It is the third column because PostgreSQL decodes a
    -- row from its start up to the last column requested.
    wire_document             bytea NOT NULL,
    organisation_id           text NOT NULL,
    mode                      mode NOT NULL,
    idempotency_key           text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    request_digest            bytea NOT NULL,
    type                      text NOT NULL CHECK (type IN ('quantity', 'value')),
    status                    text NOT NULL CHECK (status IN
                                  ('received', 'placed', 'paid', 'retiring', 'cancelled', 'complete', 'failed')),
    currency                  currency NOT NULL,
    payment_method            text NOT NULL CHECK (payment_method IN ('invoice', 'card')),
    requested_quantity_grams  bigint,
    requested_value_minor     bigint,
    -- The requested bundles, kept to price a received order later; null means the default selection.
    bundle_selection          jsonb,
    quantity_grams            bigint,
    offset_cost_minor         bigint,
    total_cost_minor          bigint,
    commission_minor          bigint,
    fee_rate                  numeric(6, 5),
    exchange_rate             numeric(24, 12),
    exchange_rate_source      text,
    exchange_rate_as_of       timestamptz,
    estimate_id               text,
    offset_link_id            text,
    email                     text,
    metadata                  text NOT NULL,
    cancelled_by              text,
    cancel_reason             text CHECK (length(cancel_reason) <= 500),
    created_at                timestamptz NOT NULL,
    status_changed_at         timestamptz NOT NULL,
    next_attempt_at           timestamptz,
    -- In whose name the order's credits are retired: the account's beneficiary when the order was placed.
    beneficiary               text CHECK (length(beneficiary) BETWEEN 1 AND 200),
    -- The API key that placed the order. Null: a checkout or a command placed it.
    placed_by_key             text,
    payment_state             text NOT NULL DEFAULT 'unpaid'
                                  CHECK (payment_state IN ('unpaid', 'paid', 'refunded', 'disputed')),
    tax_treatment             text NOT NULL DEFAULT 'none' CHECK (tax_treatment IN
                                  ('none', 'standard', 'reverse_charge', 'exempt', 'outside_scope')),
    tax_rate                  numeric(6, 5) NOT NULL DEFAULT 0 CHECK (tax_rate >= 0 AND tax_rate < 1),
    -- Null until the order is priced, or until it is billed on a consolidated invoice.
    tax_minor                 bigint CHECK (tax_minor >= 0),
    -- What billing many orders together has taken off the total cost: each order is rounded up, their sum once. Together
    -- with the tax it is what the payer pays.
    billing_adjustment_minor  bigint NOT NULL DEFAULT 0 CHECK (billing_adjustment_minor BETWEEN -total_cost_minor AND 0),
    -- When it was billed together with others. Null for an order with a document of its own.
    billed_at                 timestamptz,
    refunded_minor            bigint NOT NULL DEFAULT 0 CHECK (
                                  refunded_minor >= 0
                                  AND refunded_minor <= total_cost_minor + coalesce(tax_minor, 0)),
    failure_reason            text,
    cancellation_reason       text,
    beneficiary_kind          text NOT NULL DEFAULT 'organisation'
                                  CHECK (beneficiary_kind IN ('organisation', 'person')),
    -- Whether the person agreed to be named in public. Has no effect for organisations.
    beneficiary_is_public     boolean NOT NULL DEFAULT false,
    -- Of its payment. Its credits are not retired until the dispute is closed.
    has_open_dispute          boolean NOT NULL DEFAULT false,
    -- What a placed order waits for. It has no meaning after `placed`.
    hold_reason               text CHECK (hold_reason IN ('credit_limit_reached', 'buyer_details_missing',
                                                                          'vat_check_missing', 'exchange_rate_missing',
                                                                          'collection_pending')),
    -- The language of its mails and PDFs, fixed when the order is placed.
    language                  text NOT NULL DEFAULT 'en',
    -- Kept, as `bundle_selection` is, to price a received order later.
    quantity_trunc            text,
    -- The locked quote that fixed the price.
    quote_id                  text,
    -- What the client calls the sale. If it is not verified, a visitor of an offset link may have typed it.
    external_id               text CHECK (length(external_id) BETWEEN 1 AND 255),
    external_id_verified      boolean NOT NULL DEFAULT false CHECK (external_id IS NOT NULL OR NOT external_id_verified),
    -- Printed on invoices.
    reference                 text CHECK (length(reference) BETWEEN 1 AND 200),
    -- Its certificate is withdrawn, because credits became invalid. A new one is expected on this day.
    certificate_due_on        date CHECK (certificate_due_on IS NULL OR status = 'complete'),
    -- The date of supply, set when the order completes.
    supplied_on               date,
    -- No credits are allocated before. As the client asked for it; fixed when the order is paid.
    fulfil_after              timestamptz,
    -- Until its client releases it. `fulfil_after` is then set when it is paid, to the end of the longest wait.
    fulfil_manually           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key),
    CHECK ((requested_quantity_grams IS NULL) <> (requested_value_minor IS NULL)),
    CHECK ((type = 'quantity') = (requested_quantity_grams IS NOT NULL)),
    CHECK (quantity_grams > 0 AND quantity_grams <= 100000000000000),
    CHECK (total_cost_minor = offset_cost_minor + commission_minor),
    CHECK (offset_cost_minor >= 0 AND commission_minor >= 0),
    CHECK (total_cost_minor <= requested_value_minor),
    CHECK (status IN ('received', 'cancelled', 'failed') OR
        (quantity_grams IS NOT NULL AND total_cost_minor IS NOT NULL AND offset_cost_minor IS NOT NULL
         AND commission_minor IS NOT NULL AND fee_rate IS NOT NULL))
);
-- Lists are newest first, and read their indexes backwards: a descending index would get its new entries at the front,
-- where every split leaves two half-empty pages.
CREATE INDEX orders_newest_first ON orders (account_id, created_at, id);
CREATE INDEX orders_of_offset_link ON orders (account_id, offset_link_id, created_at, id)
    WHERE offset_link_id IS NOT NULL;
CREATE INDEX orders_by_external_id ON orders (account_id, external_id, created_at, id)
    WHERE external_id IS NOT NULL;
CREATE INDEX orders_by_reference ON orders (account_id, reference, created_at, id)
    WHERE reference IS NOT NULL;
CREATE INDEX orders_due ON orders (status, mode, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
-- To be billed together with others, which an order that a card pays may take with it.
CREATE INDEX orders_to_bill_together ON orders (account_id) WHERE tax_minor IS NULL AND status = 'placed';
-- Fulfilled on credit and not paid yet: they count against the credit limit.
CREATE INDEX orders_on_credit ON orders (account_id)
    WHERE payment_state = 'unpaid' AND status IN ('paid', 'retiring', 'complete');
-- For mails about orders that failed since the last mail.
CREATE INDEX orders_with_open_dispute ON orders (account_id, id) WHERE has_open_dispute;
CREATE INDEX orders_failed ON orders (account_id, status_changed_at) WHERE status = 'failed';
CREATE INDEX orders_by_email ON orders (lower(email)) WHERE email IS NOT NULL;
-- The overview of an organisation lists these.
CREATE INDEX orders_on_hold ON orders (organisation_id, mode, created_at)
    WHERE hold_reason IS NOT NULL AND status = 'placed';
-- Lists of the dashboard, newest first: of one organisation, and of all.
CREATE INDEX orders_of_organisation
    ON orders (organisation_id, mode, created_at, id);
-- Most orders are complete: those in another status are few, and are what people look for.
CREATE INDEX orders_of_organisation_by_status
    ON orders (organisation_id, mode, status, created_at, id) WHERE status <> 'complete';
CREATE INDEX orders_of_organisation_by_payment
    ON orders (organisation_id, mode, payment_state, created_at, id)
    WHERE payment_state IN ('refunded', 'disputed');
CREATE INDEX orders_of_mode ON orders (mode, created_at, id);
CREATE INDEX orders_open ON orders (mode, created_at, id)
    WHERE status IN ('received', 'placed', 'paid', 'retiring');
-- Adds up what an account has paid for complete orders, without reading its rows.
CREATE INDEX orders_complete_cost
    ON orders (account_id) INCLUDE (total_cost_minor, refunded_minor) WHERE status = 'complete';
-- Orders of an estimate. Only orders by estimate have an entry.
CREATE INDEX orders_of_estimate
    ON orders (account_id, estimate_id, created_at, id) WHERE estimate_id IS NOT NULL;

-- The value of a key for analytics: a text, a number or a boolean as text. Null for anything else.
CREATE FUNCTION metadata_value(metadata text, key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof(found) IN ('string', 'number', 'boolean') THEN left(found #>> '{}', 200) END
    FROM (SELECT metadata::json -> key AS found) AS member
$$;

-- One statement for all rows of a batch: a trigger for each row costs three times as much.
CREATE FUNCTION count_new_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, account_id, order_id, day, month, currency, status, orders, grams,
                              offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    SELECT organisation_id, mode, account_id, id, (created_at AT TIME ZONE 'UTC')::date,
           date_trunc('month', created_at AT TIME ZONE 'UTC')::date, currency, status, 1, coalesce(quantity_grams, 0),
           coalesce(offset_cost_minor, 0), coalesce(total_cost_minor + billing_adjustment_minor, 0),
           coalesce(tax_minor, 0), refunded_minor
    FROM added;
    RETURN NULL;
END
$$;
CREATE TRIGGER orders_are_counted AFTER INSERT ON orders
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_orders();

-- For each row: most updates change nothing that is counted, and cost nothing this way.
CREATE FUNCTION count_changed_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, account_id, order_id, day, month, currency, status, orders, grams,
                              offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    VALUES (OLD.organisation_id, OLD.mode, OLD.account_id, OLD.id, (OLD.created_at AT TIME ZONE 'UTC')::date,
            date_trunc('month', OLD.created_at AT TIME ZONE 'UTC')::date, OLD.currency, OLD.status, -1,
            -coalesce(OLD.quantity_grams, 0), -coalesce(OLD.offset_cost_minor, 0),
            -coalesce(OLD.total_cost_minor + OLD.billing_adjustment_minor, 0), -coalesce(OLD.tax_minor, 0),
            -OLD.refunded_minor),
           (NEW.organisation_id, NEW.mode, NEW.account_id, NEW.id, (NEW.created_at AT TIME ZONE 'UTC')::date,
            date_trunc('month', NEW.created_at AT TIME ZONE 'UTC')::date, NEW.currency, NEW.status, 1,
            coalesce(NEW.quantity_grams, 0), coalesce(NEW.offset_cost_minor, 0),
            coalesce(NEW.total_cost_minor + NEW.billing_adjustment_minor, 0), coalesce(NEW.tax_minor, 0),
            NEW.refunded_minor);
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_orders_are_counted AFTER UPDATE ON orders FOR EACH ROW
    WHEN ((OLD.status, OLD.created_at, OLD.quantity_grams, OLD.total_cost_minor, OLD.billing_adjustment_minor,
           OLD.tax_minor, OLD.refunded_minor)
          IS DISTINCT FROM
          (NEW.status, NEW.created_at, NEW.quantity_grams, NEW.total_cost_minor, NEW.billing_adjustment_minor,
           NEW.tax_minor, NEW.refunded_minor))
    EXECUTE FUNCTION count_changed_order();

-- The bundles of a priced order.
CREATE TABLE order_lines (
    account_id                       text NOT NULL,
    order_id                         text NOT NULL,
    position                         smallint NOT NULL,
    bundle_id                        text NOT NULL,
    bundle_name                      text NOT NULL,
    primary_image                    text,
    quantity_grams                   bigint NOT NULL CHECK (quantity_grams > 0),
    unit_price_minor                 bigint NOT NULL CHECK (unit_price_minor >= 0),
    gross_unit_price_minor           bigint NOT NULL CHECK (gross_unit_price_minor >= unit_price_minor),
    offset_cost_minor                bigint NOT NULL CHECK (offset_cost_minor >= 0),
    insufficient_available_quantity  boolean NOT NULL,
    PRIMARY KEY (account_id, order_id, position),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);

-- Arguments of the statement that inserts many orders with their lines. Servers keep the description of a type: it is
-- never altered, a changed statement gets a type with a new name.
CREATE TYPE new_order AS (
    account_id text, id text, organisation_id text, mode text, idempotency_key text, request_digest bytea, type text,
    status text, currency text, payment_method text, requested_quantity_grams bigint, requested_value_minor bigint,
    quantity_grams bigint, offset_cost_minor bigint, total_cost_minor bigint, commission_minor bigint,
    fee_rate numeric, exchange_rate numeric, exchange_rate_source text, exchange_rate_as_of timestamptz,
    estimate_id text, offset_link_id text, email text, metadata text, beneficiary text, created_at timestamptz,
    next_attempt_at timestamptz, wire_document bytea, placed_by_key text, tax_treatment text, tax_rate numeric,
    tax_minor bigint, beneficiary_kind text, beneficiary_is_public boolean, language text, quantity_trunc text,
    quote_id text, external_id text, external_id_verified boolean, reference text, fulfil_after timestamptz,
    fulfil_manually boolean, bundle_selection text
);
CREATE TYPE new_order_line AS (
    order_id text, position smallint, bundle_id text, bundle_name text, primary_image text, quantity_grams bigint,
    unit_price_minor bigint, gross_unit_price_minor bigint, offset_cost_minor bigint,
    insufficient_available_quantity boolean
);

-- The projects of an order and their quantities, fixed when supply is allocated.
CREATE TABLE order_projects (
    account_id         text NOT NULL,
    order_id           text NOT NULL,
    position           smallint NOT NULL,
    line_position      smallint NOT NULL,
    project_id         text NOT NULL,
    project_name       text NOT NULL,
    project_type       text NOT NULL,
    project_slug       text NOT NULL,
    quantity_grams     bigint NOT NULL CHECK (quantity_grams > 0),
    unit_price_minor   bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL CHECK (offset_cost_minor >= 0),
    -- The URL of the project's logo when supply was allocated.
    project_logo       text,
    -- Retired: every gram that the line has of the project.
    status             text NOT NULL CHECK (status IN ('allocated', 'retired')),
    -- Of what belongs to an order, indexes start with its id, which is random and has the time in front: entries of new
    -- orders are next to each other, and are half as large as with the account.
    PRIMARY KEY (order_id, position),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines
);

-- What was taken off paid orders before they were fulfilled: grams, and net and tax of what was billed, or is to be.
CREATE TABLE order_reductions (
    account_id       text NOT NULL,
    id               text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    before_grams     bigint NOT NULL CHECK (before_grams > after_grams),
    after_grams      bigint NOT NULL CHECK (after_grams > 0),
    net_minor        bigint NOT NULL CHECK (net_minor >= 0),
    -- Null for an order that waits for a consolidated invoice.
    tax_minor        bigint CHECK (tax_minor >= 0),
    -- Whether the order was on a document, and whether it was paid.
    was_billed       boolean NOT NULL,
    was_paid         boolean NOT NULL,
    -- Null if nothing went back.
    refund_id        text,
    actor            text NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX order_reductions_of_order ON order_reductions (order_id);
-- Entries of the journal are found by the id alone.
CREATE INDEX order_reductions_by_id ON order_reductions (id);
CREATE TRIGGER order_reductions_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON order_reductions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The page of an order is found by the hash of the token in its URL. The sealed token is for later mails.
CREATE TABLE order_links (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    token_hash       bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    token_box        bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX order_links_by_order ON order_links (order_id);

-- Whom the tax document of an order names, as the customer stated it at checkout. Documents keep a copy of their own.
CREATE TABLE order_buyers (
    account_id   text NOT NULL,
    order_id     text NOT NULL,
    is_business  boolean NOT NULL,
    name         text CHECK (length(name) BETWEEN 1 AND 200),
    company      text CHECK (length(company) BETWEEN 1 AND 200),
    street       text CHECK (length(street) BETWEEN 1 AND 200),
    postcode     text CHECK (length(postcode) BETWEEN 1 AND 20),
    city         text CHECK (length(city) BETWEEN 1 AND 100),
    country      text CHECK (country ~ '^[A-Z]{2}$'),
    vat_id       text CHECK (length(vat_id) BETWEEN 1 AND 50),
    -- The buyer's own; `reference` of the order is the client's.
    reference    text CHECK (length(reference) BETWEEN 1 AND 100),
    -- The country whose tax the order has, if it is not that of the seller.
    taxed_in     text CHECK (taxed_in ~ '^[A-Z]{2}$'),
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);

-- Mails about the money of an order that a worker has still to compose. A row is deleted with the mail's insertion.
CREATE TABLE order_mails (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('receipt', 'refund', 'cancelled', 'invoice_receipt', 'invoice',
                                                      'release')),
    -- The charge, refund, order or invoice that the mail is about.
    cause            text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    amount_minor     bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    -- While a worker composes the mail, the end of its lease. `token` is the fencing token of the lease.
    due_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    token            bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, order_id, kind, cause),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX order_mails_due ON order_mails (due_at);

-- What an account or an API key with a limit has ordered in a month (UTC). Orders that were cancelled or failed later
-- may still be included: before an order is refused, the sum is computed again from the orders.
CREATE TABLE monthly_spending (
    subject_id   text NOT NULL,
    month        date NOT NULL CHECK (extract(day FROM month) = 1),
    spent_minor  bigint NOT NULL,
    PRIMARY KEY (subject_id, month)
) WITH (fillfactor = 50);

-- Sums of orders by the month of their creation (UTC). Changes are appended to `order_deltas`, so that placing orders
-- updates no shared row; a worker moves them to `order_totals`. The sum of both is exact at any time.
CREATE TABLE order_totals (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    month            date NOT NULL CHECK (extract(day FROM month) = 1),
    currency         text NOT NULL,
    status           text NOT NULL,
    orders           bigint NOT NULL,
    grams            bigint NOT NULL,
    -- Without tax, which some orders get only with their invoice.
    cost_minor       bigint NOT NULL,
    tax_minor        bigint NOT NULL,
    refunded_minor   bigint NOT NULL,
    PRIMARY KEY (organisation_id, mode, month, currency, status),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
);

-- Only triggers insert rows. No foreign key: it would cost a lookup for every order.
CREATE TABLE order_deltas (
    organisation_id    text NOT NULL,
    mode               mode NOT NULL,
    id                 bigint GENERATED ALWAYS AS IDENTITY,
    month              date NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    orders             bigint NOT NULL,
    grams              bigint NOT NULL,
    cost_minor         bigint NOT NULL,
    tax_minor          bigint NOT NULL,
    refunded_minor     bigint NOT NULL,
    account_id         text NOT NULL,
    order_id           text NOT NULL,
    day                date NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    PRIMARY KEY (organisation_id, mode, id)
);

-- A delta that is deleted is added to the totals in the same statement. Sorted to prevent deadlocks between workers.
CREATE FUNCTION count_folded_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Naming a key and counting its earlier orders take this lock exclusively. Without it, a change that is folded
    -- meanwhile could be counted twice or not at all.
    PERFORM pg_advisory_xact_lock_shared(7405610257);
    INSERT INTO account_totals AS total (account_id, day, currency, status, orders, grams, offset_cost_minor,
                                         cost_minor, tax_minor, refunded_minor)
    SELECT account_id, day, currency, status, sum(orders), sum(grams), sum(offset_cost_minor),
           sum(cost_minor), sum(tax_minor), sum(refunded_minor)
    FROM gone GROUP BY account_id, day, currency, status ORDER BY account_id, day, currency, status
    ON CONFLICT (account_id, day, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
        cost_minor = total.cost_minor + excluded.cost_minor,
        tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor;

    INSERT INTO bundle_totals AS total (account_id, day, bundle_id, project_id, currency, parts,
                                        bundle_orders, project_orders, grams, offset_cost_minor)
    WITH net AS MATERIALIZED (
        SELECT account_id, order_id, day, currency,
               coalesce(sum(orders) FILTER (WHERE status IN ('placed', 'paid')), 0) AS waiting,
               coalesce(sum(orders) FILTER (WHERE status IN ('retiring', 'complete')), 0) AS allocated
        FROM gone GROUP BY account_id, order_id, day, currency
    ), fact AS (
        SELECT net.account_id, net.day, line.bundle_id, '' AS project_id, net.currency, net.waiting AS parts,
               net.waiting AS bundle_orders,
               CASE WHEN line.position = 1 THEN net.waiting ELSE 0 END AS project_orders,
               net.waiting * line.quantity_grams AS grams, net.waiting * line.offset_cost_minor AS offset_cost_minor
        FROM net
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
        WHERE net.waiting <> 0
        UNION ALL
        SELECT net.account_id, net.day, line.bundle_id, project.project_id, net.currency, net.allocated,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.line_position)
                    THEN net.allocated ELSE 0 END,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.project_id)
                    THEN net.allocated ELSE 0 END,
               net.allocated * project.quantity_grams, net.allocated * project.offset_cost_minor
        FROM net
        JOIN order_projects project ON project.account_id = net.account_id AND project.order_id = net.order_id
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
         AND line.position = project.line_position
        WHERE net.allocated <> 0
    )
    SELECT account_id, day, bundle_id, project_id, currency, sum(parts), sum(bundle_orders), sum(project_orders),
           sum(grams), sum(offset_cost_minor)
    FROM fact GROUP BY account_id, day, bundle_id, project_id, currency
    ORDER BY account_id, day, bundle_id, project_id, currency
    ON CONFLICT (account_id, day, bundle_id, project_id, currency) DO UPDATE
    SET parts = total.parts + excluded.parts, bundle_orders = total.bundle_orders + excluded.bundle_orders,
        project_orders = total.project_orders + excluded.project_orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor;

    INSERT INTO metadata_totals AS total (account_id, key, day, value, currency, status, orders, grams,
                                          offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    SELECT gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status,
           sum(gone.orders), sum(gone.grams), sum(gone.offset_cost_minor),
           sum(gone.cost_minor), sum(gone.tax_minor), sum(gone.refunded_minor)
    FROM gone JOIN metadata_keys named ON named.account_id = gone.account_id
    JOIN orders ON orders.account_id = gone.account_id AND orders.id = gone.order_id
    CROSS JOIN LATERAL (SELECT metadata_value(orders.metadata, named.key) AS value) found
    WHERE found.value IS NOT NULL
      AND (named.is_complete OR (orders.created_at, orders.id) <= (named.scanned_at, named.scanned_id))
    GROUP BY gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status
    ORDER BY gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status
    ON CONFLICT (account_id, key, day, value, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
        cost_minor = total.cost_minor + excluded.cost_minor,
        tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor;
    RETURN NULL;
END
$$;
CREATE TRIGGER folded_orders_are_counted AFTER DELETE ON order_deltas
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_folded_orders();

-- Prices that are fixed until `expires_at`. `locked` is the price with all that it depends on, as JSON; `document` the
-- JSON that the API returns, up to its status. A quote is used by one order. No foreign key to orders: it would cost a
-- lookup for every order.
CREATE TABLE quotes (
    account_id       text NOT NULL,
    id               text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    document         bytea NOT NULL,
    locked           bytea NOT NULL,
    idempotency_key  text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    request_digest   bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    order_id         text,
    -- What it counts against the quota, while `is_holding`.
    held_grams       bigint NOT NULL CHECK (held_grams >= 0),
    -- Until the quote expires unused, or its order is allocated or has ended.
    is_holding       boolean NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE UNIQUE INDEX quotes_by_key ON quotes (account_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX quotes_holding ON quotes (organisation_id, mode) WHERE is_holding;
CREATE INDEX quotes_by_expiry ON quotes (expires_at);

-- How many grams the quotes of an account, or of all accounts of an organisation without a quota of their own, may hold.
CREATE TABLE hold_quotas (
    -- An account or an organisation.
    subject_id       text NOT NULL,
    mode             mode NOT NULL,
    organisation_id  text NOT NULL,
    quota_grams      bigint NOT NULL CHECK (quota_grams BETWEEN 1 AND 100000000000000),
    PRIMARY KEY (subject_id, mode)
);
CREATE INDEX hold_quotas_of_organisation ON hold_quotas (organisation_id, mode);

-- Sums of an account's orders by the day of their creation (UTC). Rows of `order_deltas` are added when they are
-- deleted.
CREATE TABLE account_totals (
    account_id         text NOT NULL,
    day                date NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    orders             bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    cost_minor         bigint NOT NULL,
    tax_minor          bigint NOT NULL,
    refunded_minor     bigint NOT NULL,
    PRIMARY KEY (account_id, day, currency, status)
);

-- The same by bundle and project, for orders that are priced and not cancelled or failed. `project_id` is empty until
-- supply is allocated. `parts` counts an order once for each bundle and project of it, `bundle_orders` once for each
-- bundle, `project_orders` once for each project.
CREATE TABLE bundle_totals (
    account_id         text NOT NULL,
    day                date NOT NULL,
    bundle_id          text NOT NULL,
    project_id         text NOT NULL,
    currency           text NOT NULL,
    parts              bigint NOT NULL,
    bundle_orders      bigint NOT NULL,
    project_orders     bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    PRIMARY KEY (account_id, day, bundle_id, project_id, currency)
);

-- Keys of metadata that an account has named. Orders up to `scanned_at` and `scanned_id` are counted.
CREATE TABLE metadata_keys (
    account_id       text NOT NULL,
    key              text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    created_at       timestamptz NOT NULL,
    scanned_at       timestamptz NOT NULL DEFAULT '1970-01-01T00:00:00Z',
    scanned_id       text NOT NULL DEFAULT '',
    is_complete      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX metadata_keys_to_scan ON metadata_keys (created_at) WHERE NOT is_complete;

-- The same as `account_totals`, by the values of these keys.
CREATE TABLE metadata_totals (
    account_id         text NOT NULL,
    key                text NOT NULL,
    day                date NOT NULL,
    value              text NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    orders             bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    cost_minor         bigint NOT NULL,
    tax_minor          bigint NOT NULL,
    refunded_minor     bigint NOT NULL,
    PRIMARY KEY (account_id, key, day, value, currency, status)
);
