-- The whole schema, in the order of the packages that own the tables.
--
-- Money is stored in integer minor units of its currency, mass in integer grams. The keys of every table that grows
-- start with the organisation, the account or the mode, so that it can be partitioned by that column.
--
-- `next_attempt_at` is the time at which a worker picks a row up; null means that nothing is left to do for it, or that
-- another event will set it. docs/architecture.md describes these queues.

CREATE DOMAIN mode AS text CHECK (VALUE IN ('live', 'test'));
CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');

-- gateways -----------------------------------------------------------------------------------------------------

-- What the simulated card gateway has charged. It simulates another company's database, so no other table refers to
-- it.
CREATE TABLE simulated_charges (
    id              text PRIMARY KEY,
    customer        text NOT NULL,
    method          text NOT NULL,
    amount_minor    bigint NOT NULL,
    currency        text NOT NULL,
    status          text NOT NULL,
    code            text,
    reference       text UNIQUE,
    refunded_minor  bigint NOT NULL DEFAULT 0,
    refund_ids      text[] NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX simulated_charges_declined ON simulated_charges (customer, amount_minor) WHERE status = 'declined';

-- Outgoing mail. A row without sent_at is tried again at next_attempt_at.
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

-- events -------------------------------------------------------------------------------------------------------

-- One stream per organisation and mode. A transaction updates its row last, in the statement that inserts the events:
-- positions are then gapless and in commit order, and a reader that reads upwards misses no event.
CREATE TABLE event_streams (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    last_position    bigint NOT NULL DEFAULT 0,
    last_sequence    timestamptz NOT NULL DEFAULT '2000-01-01T00:00:00Z',
    PRIMARY KEY (organisation_id, mode)
) WITH (fillfactor = 50);

-- Every event is stored once, however many webhooks receive it.
CREATE TABLE events (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    position         bigint NOT NULL,
    id               text NOT NULL,
    account_id       text NOT NULL,
    subject_id       text NOT NULL,
    event_type       text NOT NULL,
    sequence         timestamptz NOT NULL,
    -- The WebhookEvent as JSON, sent byte for byte in every delivery.
    payload          text NOT NULL,
    PRIMARY KEY (organisation_id, mode, position)
);
CREATE UNIQUE INDEX events_by_id ON events (organisation_id, mode, id);
CREATE INDEX events_of_account ON events (organisation_id, mode, account_id, position);

-- accounts -----------------------------------------------------------------------------------------------------

CREATE TABLE organisations (
    id          text PRIMARY KEY,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    -- The postal address printed on invoices.
    address     text NOT NULL DEFAULT '' CHECK (length(address) <= 1000),
    fee_rate    numeric(6, 5) NOT NULL DEFAULT 0.10 CHECK (fee_rate >= 0 AND fee_rate < 1),
    created_at  timestamptz NOT NULL
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
    organisation_id           text NOT NULL,
    id                        text NOT NULL UNIQUE,
    mode                      mode NOT NULL,
    kind                      text NOT NULL CHECK (kind IN ('account', 'client_account')),
    name                      text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    currency                  currency NOT NULL,
    beneficiary               text NOT NULL CHECK (length(beneficiary) BETWEEN 1 AND 200),
    payment_method            text NOT NULL DEFAULT 'invoice' CHECK (payment_method IN ('invoice', 'card')),
    default_bundle_selection  jsonb,
    -- Whether the worker processes the orders of a test account, or they wait for the test helpers. Always true in live
    -- mode.
    auto_advance              boolean NOT NULL DEFAULT true CHECK (auto_advance OR mode = 'test'),
    created_at                timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, id),
    -- Referenced together with the mode, so that no row can refer to an account of the other mode.
    UNIQUE (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
);

-- API keys. Only the hash of the secret is stored.
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

-- Who did what. Append-only: a trigger refuses UPDATE, DELETE and TRUNCATE.
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

-- catalog ------------------------------------------------------------------------------------------------------

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
    granularity_grams    bigint NOT NULL CHECK (granularity_grams > 0),
    description          text,
    image                text,
    registry_url         text,
    created_at           timestamptz NOT NULL,
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
    PRIMARY KEY (mode, id),
    UNIQUE (mode, slug)
);

-- The projects of a bundle and their shares of it.
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
    mass_unit        text NOT NULL CHECK (mass_unit IN ('g', 'kg', 't')),
    description      text,
    -- JSON exactly as the client sent it; text keeps the key order and the spelling of numbers.
    metadata         text NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key)
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
CREATE INDEX orders_due ON orders (status, mode, next_attempt_at) WHERE next_attempt_at IS NOT NULL;

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
    PRIMARY KEY (account_id, order_id, position),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines
);

-- cards --------------------------------------------------------------------------------------------------------

-- The gateway's ids of a stored card, and what may be displayed of it. The gateway keeps the card itself.
CREATE TABLE account_cards (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    gateway          text NOT NULL CHECK (gateway IN ('simulated', 'stripe')),
    customer         text NOT NULL,
    method           text NOT NULL,
    brand            text NOT NULL,
    last_four        text NOT NULL,
    expires          text NOT NULL,
    created_at       timestamptz NOT NULL,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    -- A test account must not move real money.
    CHECK (mode = 'live' OR gateway = 'simulated')
);

-- One row per attempt to charge an order, written before the gateway is called: after a crash the worker knows what to
-- ask about. The id is also the idempotency key at the gateway.
CREATE TABLE charges (
    account_id       text NOT NULL,
    id               text NOT NULL UNIQUE,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    attempt          smallint NOT NULL CHECK (attempt > 0),
    gateway          text NOT NULL CHECK (gateway IN ('simulated', 'stripe')),
    -- What the charge is paid with: a card stored at the gateway (customer, method), the gateway's own page (session_id,
    -- null until the page is opened), or nothing because the account has no card.
    source           text NOT NULL CHECK (source IN ('stored_card', 'hosted_page', 'none')),
    customer         text,
    method           text,
    session_id       text,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    currency         currency NOT NULL,
    -- pending: the outcome is not known yet. captured: the order is paid. failed: see outcome. refund_due: captured
    -- after the order was cancelled. mismatched: the gateway reports a different amount.
    status           text NOT NULL CHECK (status IN
                         ('pending', 'captured', 'failed', 'refund_due', 'refunded', 'mismatched')),
    outcome          text,
    reference        text,
    code             text,
    message          text,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    refunded_at      timestamptz,
    -- Set while the charge is pending or refund_due.
    next_attempt_at  timestamptz,
    -- When the gateway first reported that it does not know the charge, although it was sent.
    missing_since    timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, order_id, attempt),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((source = 'stored_card') = (customer IS NOT NULL) AND (source = 'stored_card') = (method IS NOT NULL)),
    CHECK (source = 'hosted_page' OR session_id IS NULL),
    CHECK ((status IN ('captured', 'refund_due', 'refunded', 'mismatched')) = (reference IS NOT NULL))
);
-- Prevents double charges: at most one charge of an order is pending or captured.
CREATE UNIQUE INDEX charges_one_per_order ON charges (account_id, order_id) WHERE status IN ('pending', 'captured');
CREATE INDEX charges_due ON charges (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- invoices -----------------------------------------------------------------------------------------------------

-- The last invoice number of each mode. It is incremented in the transaction that inserts the invoice, so that numbers
-- have no gaps.
CREATE TABLE invoice_series (
    mode         mode PRIMARY KEY,
    last_number  bigint NOT NULL DEFAULT 0
);
INSERT INTO invoice_series (mode) VALUES ('live'), ('test');

-- One invoice per order.
CREATE TABLE invoices (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    -- What the payer writes on the transfer.
    reference        text NOT NULL UNIQUE,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    status           text NOT NULL CHECK (status IN ('open', 'paid', 'cancelled')),
    issued_on        date NOT NULL,
    due_on           date NOT NULL CHECK (due_on >= issued_on),
    -- The invoice as it was sent (JSON, UTF-8). Never changed.
    record           bytea NOT NULL,
    mailed_at        timestamptz,
    reminded_at      timestamptz,
    settled_at       timestamptz,
    settled_by       text,
    created_at       timestamptz NOT NULL,
    -- When a worker next mails it, sends a reminder or cancels the order.
    next_attempt_at  timestamptz,
    PRIMARY KEY (account_id, order_id),
    UNIQUE (mode, number),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX invoices_due ON invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- Incoming bank transfers, one row per line of a statement. The digest identifies a line that is imported twice.
CREATE TABLE bank_transfers (
    id            text PRIMARY KEY,
    digest        bytea NOT NULL UNIQUE,
    mode          mode NOT NULL,
    booked_on     date NOT NULL,
    amount_minor  bigint NOT NULL,
    currency      currency NOT NULL,
    payer         text NOT NULL,
    reference     text NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('matched', 'over', 'under', 'unknown', 'not_open')),
    account_id    text,
    order_id      text,
    imported_at   timestamptz NOT NULL,
    imported_by   text NOT NULL
);
CREATE INDEX bank_transfers_of_invoice ON bank_transfers (account_id, order_id) WHERE order_id IS NOT NULL;

-- retirements --------------------------------------------------------------------------------------------------

-- Registries number credits within a block of serials. Multiplying the block's number into the range below keeps the
-- ranges of different blocks apart, so that one exclusion constraint covers all lots without an extension.
CREATE TABLE serial_blocks (
    number    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    registry  text NOT NULL,
    block     text NOT NULL CHECK (length(block) BETWEEN 1 AND 200),
    UNIQUE (registry, block)
);

-- Credits with consecutive serial numbers, one tonne each.
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

-- Whole registry units taken from a lot and retired together. `start_grams` counts from the lot's first serial number;
-- the next parcel of a lot starts at the lot's allocated_grams.
CREATE TABLE parcels (
    mode              mode NOT NULL,
    id                text NOT NULL,
    lot_id            text NOT NULL,
    project_id        text NOT NULL,
    start_grams       bigint NOT NULL CHECK (start_grams >= 0),
    quantity_grams    bigint NOT NULL CHECK (quantity_grams > 0),
    -- How much of it belongs to orders. Less than quantity_grams only in a pooled unit, which fractions share.
    allocated_grams   bigint NOT NULL CHECK (allocated_grams > 0 AND allocated_grams <= quantity_grams),
    -- The account whose fractions it takes; null for a unit retired in the service's name, which any account shares.
    account_id        text,
    beneficiary       text NOT NULL,
    in_service_name   boolean NOT NULL,
    status            text NOT NULL CHECK (status IN ('open', 'to_retire', 'retired')),
    opened_at         timestamptz NOT NULL,
    -- A unit that is still open at this time is retired in the service's name.
    close_at          timestamptz,
    retired_on        date,
    retirement_url    text,
    retired_at        timestamptz,
    PRIMARY KEY (mode, id),
    UNIQUE (mode, lot_id, start_grams),
    FOREIGN KEY (mode, lot_id) REFERENCES lots,
    CHECK (in_service_name = (account_id IS NULL)),
    CHECK ((status = 'retired') = (retired_on IS NOT NULL)),
    CHECK ((status = 'open') = (close_at IS NOT NULL)),
    CHECK (status <> 'open' OR allocated_grams < quantity_grams)
);
CREATE INDEX parcels_with_room ON parcels (mode, project_id, account_id) WHERE allocated_grams < quantity_grams;
CREATE INDEX parcels_to_close ON parcels (close_at) WHERE status = 'open';
CREATE INDEX parcels_to_retire ON parcels (mode, opened_at, id) WHERE status = 'to_retire';

-- The grams of a parcel that belong to one line of an order.
CREATE TABLE shares (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    line_position    smallint NOT NULL,
    mode             mode NOT NULL,
    parcel_id        text NOT NULL,
    organisation_id  text NOT NULL,
    -- The account's beneficiary at the time of allocation.
    beneficiary      text NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    PRIMARY KEY (account_id, order_id, line_position, parcel_id),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines,
    FOREIGN KEY (mode, parcel_id) REFERENCES parcels
);
CREATE INDEX shares_of_parcel ON shares (mode, parcel_id);
CREATE INDEX shares_of_organisation ON shares (organisation_id, mode, parcel_id);

-- One certificate per complete order.
CREATE TABLE certificates (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           text NOT NULL UNIQUE,
    issued_at        timestamptz NOT NULL,
    -- Everything that PDF, page and JSON show (JSON, UTF-8). Never changed.
    record           bytea NOT NULL,
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX certificates_newest_first ON certificates (account_id, issued_at DESC, number DESC);

-- The SHA-256 of every PDF sent out for a certificate. A later release may render other bytes; all of them verify.
CREATE TABLE certificate_documents (
    number       text NOT NULL REFERENCES certificates (number),
    sha256       bytea NOT NULL CHECK (length(sha256) = 32),
    rendered_at  timestamptz NOT NULL,
    PRIMARY KEY (number, sha256)
);

-- Totals of complete orders, updated when an order completes: the cost of a Sustainability page does not grow with the
-- number of orders.
CREATE TABLE retired_totals (
    account_id    text NOT NULL,
    month         date NOT NULL CHECK (extract(day FROM month) = 1),
    bundle_id     text NOT NULL,
    project_id    text NOT NULL,
    -- The names on the latest order of the month.
    bundle_name   text NOT NULL,
    project_name  text NOT NULL,
    project_type  text NOT NULL,
    grams         bigint NOT NULL CHECK (grams > 0),
    PRIMARY KEY (account_id, month, bundle_id, project_id)
);

-- webhooks -----------------------------------------------------------------------------------------------------

-- A webhook reads its organisation's event stream with a cursor.
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
    -- During a rotation requests carry the signatures of both secrets.
    old_secret_box       bytea,
    old_secret_until     timestamptz,

    -- Every event up to this position was acknowledged, was skipped, is out of scope, or belongs to a parked account.
    cursor_position      bigint NOT NULL,
    -- How often the first event after the cursor was refused when sent alone.
    head_refusals        integer NOT NULL DEFAULT 0,
    batch_limit          integer NOT NULL DEFAULT 100 CHECK (batch_limit BETWEEN 1 AND 100),
    failures             integer NOT NULL DEFAULT 0,
    failing_since        timestamptz,
    alerts_sent          smallint NOT NULL DEFAULT 0,
    next_attempt_at      timestamptz NOT NULL,
    last_attempt_at      timestamptz,

    -- Counters for the metrics, never reset.
    acknowledged_count   bigint NOT NULL DEFAULT 0,
    refused_count        bigint NOT NULL DEFAULT 0,

    -- A worker leases the webhook until lease_until. The token fences it off afterwards: only the holder of the newest
    -- token may store a result. Any change of the registration increments the version; the result of a request in
    -- flight is then discarded and its events are sent again.
    lease_token          bigint NOT NULL DEFAULT 0,
    lease_until          timestamptz,
    version              bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
) WITH (fillfactor = 50);
CREATE INDEX webhooks_in_use ON webhooks (organisation_id, mode) WHERE deleted_at IS NULL;

-- The accounts in scope of a webhook from a position on. A change of the scope adds a row, so it applies to later
-- events only.
CREATE TABLE webhook_scopes (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    from_position    bigint NOT NULL,
    account_ids      text[] NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, from_position)
);

-- Accounts whose next event the receiver keeps refusing while it acknowledges others: only their events wait.
CREATE TABLE webhook_parked (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    account_id       text NOT NULL,
    -- The refused event. The account's events from here on are delivered separately from the others.
    position         bigint NOT NULL,
    refusals         integer NOT NULL,
    parked_at        timestamptz NOT NULL,
    alerts_sent      smallint NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, account_id)
);

-- Events that a person decided to skip. Rewinding the webhook to an earlier position sends them again.
CREATE TABLE webhook_skips (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    position         bigint NOT NULL,
    skipped_at       timestamptz NOT NULL,
    skipped_by       text NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, position)
);

-- The requests sent to receivers, deleted after a while.
CREATE TABLE webhook_attempts (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    id               text NOT NULL,
    at               timestamptz NOT NULL,
    positions        bigint[] NOT NULL,
    -- The HTTP status, or null with an error if there was no response.
    status           smallint,
    error            text,
    acknowledged     boolean NOT NULL,
    duration_ms      integer NOT NULL,
    answer           text,
    -- Also the order in which attempts are listed.
    PRIMARY KEY (organisation_id, webhook_id, at, id)
);
CREATE INDEX webhook_attempts_by_age ON webhook_attempts USING brin (at);

-- checkout -----------------------------------------------------------------------------------------------------

-- Public payment pages. The id is the secret: everyone who knows the URL can pay there.
CREATE TABLE offset_links (
    account_id             text NOT NULL,
    id                     text NOT NULL UNIQUE,
    organisation_id        text NOT NULL,
    mode                   mode NOT NULL,
    title                  text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    message                text NOT NULL DEFAULT '' CHECK (length(message) <= 2000),
    -- The bundles on offer; null means the account's own selection.
    bundle_selection       jsonb,
    -- The initial amount of the form: at most one of the two, and required if the amount cannot be edited.
    preset_quantity_grams  bigint CHECK (preset_quantity_grams > 0),
    preset_value_minor     bigint CHECK (preset_value_minor > 0),
    amount_editable        boolean NOT NULL DEFAULT true,
    min_quantity_grams     bigint CHECK (min_quantity_grams > 0),
    max_quantity_grams     bigint CHECK (max_quantity_grams > 0),
    min_value_minor        bigint CHECK (min_value_minor > 0),
    max_value_minor        bigint CHECK (max_value_minor > 0),
    redirect_url           text,
    redirect_label         text CHECK (length(redirect_label) BETWEEN 1 AND 100),
    enabled                boolean NOT NULL DEFAULT true,
    expires_at             timestamptz,
    created_at             timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK (preset_quantity_grams IS NULL OR preset_value_minor IS NULL),
    CHECK (amount_editable OR preset_quantity_grams IS NOT NULL OR preset_value_minor IS NOT NULL),
    CHECK (min_quantity_grams <= max_quantity_grams),
    CHECK (min_value_minor <= max_value_minor)
);
CREATE INDEX offset_links_newest_first ON offset_links (account_id, created_at DESC, id DESC);

-- One customer's visit to a payment page. The token in its URL and the temporary id derived from it are stored hashed.
CREATE TABLE checkouts (
    account_id                text NOT NULL,
    id                        text NOT NULL UNIQUE,
    organisation_id           text NOT NULL,
    mode                      mode NOT NULL,
    offset_link_id            text NOT NULL,
    token_hash                bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    temporary_id_hash         bytea NOT NULL UNIQUE CHECK (length(temporary_id_hash) = 32),
    -- open: amount chosen, no order yet. ordered: has an order, paid or unpaid. closed: cancelled or expired.
    status                    text NOT NULL CHECK (status IN ('open', 'ordered', 'closed')),
    requested_quantity_grams  bigint CHECK (requested_quantity_grams > 0),
    requested_value_minor     bigint CHECK (requested_value_minor > 0),
    bundle_selection          jsonb,
    -- The total last shown to the customer. No other amount is charged.
    total_cost_minor          bigint NOT NULL CHECK (total_cost_minor > 0),
    currency                  currency NOT NULL,
    email                     text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    external_id               text CHECK (length(external_id) BETWEEN 1 AND 255),
    redirect_url              text,
    redirect_label            text,
    order_id                  text,
    created_at                timestamptz NOT NULL,
    expires_at                timestamptz NOT NULL,
    -- When close_checkouts looks at it next. Null: paid or closed.
    next_close_at             timestamptz,
    -- When mail_certificates looks at it next. Null: no order yet, mailed, or closed.
    next_mail_at              timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, order_id),
    FOREIGN KEY (account_id, offset_link_id) REFERENCES offset_links,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((requested_quantity_grams IS NULL) <> (requested_value_minor IS NULL)),
    CHECK (status <> 'open' OR order_id IS NULL),
    CHECK (status <> 'ordered' OR order_id IS NOT NULL)
);
-- A flow with an external id completes at most once.
CREATE UNIQUE INDEX checkouts_once ON checkouts (account_id, offset_link_id, external_id)
    WHERE external_id IS NOT NULL AND status = 'ordered';
CREATE INDEX checkouts_to_close ON checkouts (next_close_at) WHERE next_close_at IS NOT NULL;
CREATE INDEX checkouts_to_mail ON checkouts (next_mail_at) WHERE next_mail_at IS NOT NULL;

-- sustainability -----------------------------------------------------------------------------------------------

-- Every slug a page ever had. An old slug redirects to the page and cannot be taken by another account.
CREATE TABLE sustainability_slugs (
    mode        mode NOT NULL,
    slug        text NOT NULL CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(slug) BETWEEN 3 AND 60),
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (mode, slug)
);
CREATE INDEX sustainability_slugs_of_account ON sustainability_slugs (account_id);

-- The public Sustainability page of an account.
CREATE TABLE sustainability_pages (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    slug             text NOT NULL,
    enabled          boolean NOT NULL,
    title            text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    description      text NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    sections         text[] NOT NULL CHECK (
                         sections <@ ARRAY ['bundles_breakdown', 'certificates', 'projects', 'timeline']),
    logo             bytea CHECK (length(logo) <= 131072),
    logo_media_type  text CHECK (logo_media_type IN ('image/png', 'image/jpeg', 'image/webp')),
    updated_at       timestamptz NOT NULL,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    FOREIGN KEY (mode, slug) REFERENCES sustainability_slugs,
    CHECK ((logo IS NULL) = (logo_media_type IS NULL))
);
