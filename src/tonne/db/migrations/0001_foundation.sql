-- Organisations, accounts, keys, catalogue, estimates, orders and the event log.
--
-- Money is in integer minor units of its currency, mass in integer grams. Every table that grows carries the
-- organisation or the account first in its keys, so that it can be distributed by that column.

CREATE DOMAIN mode AS text CHECK (VALUE IN ('live', 'test'));
CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');

-- Who buys -----------------------------------------------------------------------------------------------------

CREATE TABLE organisations (
    id          text PRIMARY KEY,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    fee_rate    numeric(6, 5) NOT NULL DEFAULT 0.10 CHECK (fee_rate >= 0 AND fee_rate < 1),
    created_at  timestamptz NOT NULL
);

-- What an organisation sets apart for each mode, since bundles belong to one mode only.
CREATE TABLE organisation_modes (
    organisation_id           text NOT NULL REFERENCES organisations,
    mode                      mode NOT NULL,
    default_bundle_selection  jsonb,
    PRIMARY KEY (organisation_id, mode)
);

CREATE TABLE accounts (
    organisation_id           text NOT NULL,
    id                        text NOT NULL UNIQUE,
    mode                      mode NOT NULL,
    kind                      text NOT NULL CHECK (kind IN ('account', 'client_account')),
    name                      text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    currency                  currency NOT NULL,
    beneficiary               text NOT NULL CHECK (length(beneficiary) BETWEEN 1 AND 200),
    payment_method            text NOT NULL DEFAULT 'invoice' CHECK (payment_method IN ('invoice', 'card')),
    default_bundle_selection  jsonb,
    created_at                timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, id),
    -- Lets a key name its account together with the mode, so that a key can never point into the other mode.
    UNIQUE (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
);

CREATE TABLE api_keys (
    organisation_id     text NOT NULL,
    id                  text NOT NULL,
    mode                mode NOT NULL,
    default_account_id  text NOT NULL,
    name                text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    secret_hash         bytea NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    last_four           text NOT NULL CHECK (length(last_four) = 4),
    created_at          timestamptz NOT NULL,
    last_used_at        timestamptz,
    revoked_at          timestamptz,
    PRIMARY KEY (organisation_id, id),
    FOREIGN KEY (organisation_id, mode, default_account_id) REFERENCES accounts (organisation_id, mode, id)
);

-- Who did what, append-only: the rules below turn a change of the past into nothing.
CREATE TABLE audit_log (
    organisation_id  text NOT NULL,
    id               text NOT NULL,
    at               timestamptz NOT NULL,
    actor            text NOT NULL,
    action           text NOT NULL,
    subject_id       text NOT NULL,
    details          jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (organisation_id, id)
);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What is sold -------------------------------------------------------------------------------------------------

-- One catalogue per mode. `version` rises with every import, so that a process knows when its copy is old.
CREATE TABLE catalogues (
    mode                      mode PRIMARY KEY,
    currency                  currency NOT NULL,
    version                   bigint NOT NULL DEFAULT 1,
    default_bundle_selection  jsonb
);

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
    granularity_grams    bigint NOT NULL CHECK (granularity_grams > 0),
    description          text,
    image                text,
    registry_url         text,
    created_at           timestamptz NOT NULL,
    PRIMARY KEY (mode, id),
    UNIQUE (mode, registry, registry_project_id),
    UNIQUE (mode, slug)
);

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
    PRIMARY KEY (mode, id),
    UNIQUE (mode, slug)
);

CREATE TABLE bundle_projects (
    mode        mode NOT NULL,
    bundle_id   text NOT NULL,
    project_id  text NOT NULL,
    weight      integer NOT NULL CHECK (weight > 0),
    position    integer NOT NULL,
    PRIMARY KEY (mode, bundle_id, project_id),
    FOREIGN KEY (mode, bundle_id) REFERENCES bundles,
    FOREIGN KEY (mode, project_id) REFERENCES projects
);

-- One unit of `base` costs `rate` units of `quote`. The newest row that is not in the future counts.
CREATE TABLE exchange_rates (
    mode   mode NOT NULL REFERENCES catalogues,
    base   currency NOT NULL,
    quote  currency NOT NULL CHECK (quote <> base),
    as_of  timestamptz NOT NULL,
    rate   numeric(24, 12) NOT NULL CHECK (rate > 0),
    source text NOT NULL,
    PRIMARY KEY (mode, base, quote, as_of)
);

-- Registries number credits within a block of serials. The block's own number makes ranges of different blocks
-- disjoint below, so that one exclusion constraint can hold them all without an extension.
CREATE TABLE serial_blocks (
    number    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    registry  text NOT NULL,
    block     text NOT NULL CHECK (length(block) BETWEEN 1 AND 200),
    UNIQUE (registry, block)
);

-- A run of credits with consecutive serial numbers, one tonne each.
CREATE TABLE lots (
    mode             mode NOT NULL,
    id               text NOT NULL UNIQUE,
    project_id       text NOT NULL,
    vintage          smallint NOT NULL CHECK (vintage BETWEEN 1990 AND 2100),
    serial_block     integer NOT NULL REFERENCES serial_blocks,
    first_number     bigint NOT NULL CHECK (first_number >= 0),
    last_number      bigint NOT NULL CHECK (last_number < 1000000000000000),
    country          text NOT NULL,
    methodology      text,
    status           text NOT NULL CHECK (status IN ('held', 'pre_retired')),
    retirement_url   text,
    retired_on       date,
    quantity_grams   bigint NOT NULL GENERATED ALWAYS AS ((last_number - first_number + 1) * 1000000) STORED,
    allocated_grams  bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (mode, id),
    FOREIGN KEY (mode, project_id) REFERENCES projects,
    CHECK (last_number >= first_number AND last_number - first_number < 1000000000),
    CHECK (allocated_grams BETWEEN 0 AND (last_number - first_number + 1) * 1000000),
    CHECK ((status = 'pre_retired') = (retirement_url IS NOT NULL AND retired_on IS NOT NULL)),
    CONSTRAINT lots_never_overlap EXCLUDE USING gist (
        numrange(serial_block * 1000000000000000::numeric + first_number,
                 serial_block * 1000000000000000::numeric + last_number, '[]') WITH &&)
);
CREATE INDEX lots_by_project ON lots (mode, project_id, vintage, id);

-- Emission calculations ----------------------------------------------------------------------------------------

-- Estimates and orders do not reference their account: accounts are never deleted, the scope that writes a row was
-- read from one, and a share lock on the account's row for every order would make a busy account queue.
CREATE TABLE estimates (
    account_id       text NOT NULL,
    id               text NOT NULL,
    idempotency_key  text NOT NULL,
    request_digest   bytea NOT NULL,
    mass_grams       bigint NOT NULL CHECK (mass_grams BETWEEN 1 AND 100000000000000),
    mass_amount      text NOT NULL,
    mass_unit        text NOT NULL CHECK (mass_unit IN ('g', 'kg', 't')),
    description      text,
    -- JSON exactly as it was sent: key order and the spelling of numbers are the client's.
    metadata         text NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key)
);

-- Orders -------------------------------------------------------------------------------------------------------

CREATE TABLE orders (
    account_id                text NOT NULL,
    id                        text NOT NULL,
    -- The order as the interface shows it, written with every transition: reading an order copies these bytes, and they
    -- are bytes (JSON, UTF-8) because text would be checked and converted on every way. They stand in front because a
    -- row is unpacked from its beginning, up to the last column that is asked for.
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
    -- What was asked for, so that an order that waits for a price can still be priced: null means the default.
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
    created_at                timestamptz NOT NULL,
    status_changed_at         timestamptz NOT NULL,
    next_attempt_at           timestamptz,
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
CREATE INDEX orders_newest_first ON orders (account_id, created_at DESC, id DESC);
CREATE INDEX orders_of_offset_link ON orders (account_id, offset_link_id, created_at DESC, id DESC)
    WHERE offset_link_id IS NOT NULL;
CREATE INDEX orders_to_price ON orders (next_attempt_at) WHERE status = 'received';

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

-- Events -------------------------------------------------------------------------------------------------------

-- One stream per organisation and mode. The row is advanced last in a transaction, in the statement that inserts
-- the events: positions are then gapless and in commit order, and a reader never passes an event unseen.
CREATE TABLE event_streams (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    last_position    bigint NOT NULL DEFAULT 0,
    last_sequence    timestamptz NOT NULL DEFAULT '2000-01-01T00:00:00Z',
    PRIMARY KEY (organisation_id, mode)
) WITH (fillfactor = 50);

CREATE TABLE events (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    position         bigint NOT NULL,
    id               text NOT NULL,
    account_id       text NOT NULL,
    subject_id       text NOT NULL,
    event_type       text NOT NULL,
    sequence         timestamptz NOT NULL,
    -- The WebhookEvent, byte for byte as every delivery sends it.
    payload          text NOT NULL,
    PRIMARY KEY (organisation_id, mode, position)
);
