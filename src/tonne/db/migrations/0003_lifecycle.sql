-- From placed to complete: cards and charges, invoices, allocation, retirement, certificates.

-- Where invoices go, as the lines of an address.
ALTER TABLE organisations ADD COLUMN address text NOT NULL DEFAULT '' CHECK (length(address) <= 1000);
-- Whether a test account's orders go on by themselves, or wait for the test helpers. Live ones have no choice.
ALTER TABLE accounts ADD COLUMN auto_advance boolean NOT NULL DEFAULT true CHECK (auto_advance OR mode = 'test');

-- Who cancelled, and why, when an order was.
ALTER TABLE orders ADD COLUMN cancelled_by text;
ALTER TABLE orders ADD COLUMN cancel_reason text CHECK (length(cancel_reason) <= 500);
-- An order's status is its place in the queue, next_attempt_at its turn: null where nothing is to be done, or where
-- something else will say when.
DROP INDEX orders_to_price;
CREATE INDEX orders_due ON orders (status, mode, next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- Cards --------------------------------------------------------------------------------------------------------

-- The card itself is kept by the gateway: here are its names for customer and card, and what a person may see.
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
    -- A test account never pays with real money.
    CHECK (mode = 'live' OR gateway = 'simulated')
);

-- One row per attempt, written before the gateway is asked: whatever crashes, it says what to ask about. Its id is the
-- idempotency key at the gateway.
CREATE TABLE charges (
    account_id       text NOT NULL,
    id               text NOT NULL UNIQUE,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    attempt          smallint NOT NULL CHECK (attempt > 0),
    gateway          text NOT NULL CHECK (gateway IN ('simulated', 'stripe')),
    customer         text NOT NULL,
    method           text NOT NULL,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    currency         currency NOT NULL,
    -- pending: nobody knows yet. captured: the order is paid with it. failed: declined in one of its ways, see outcome.
    -- refund_due: captured for an order that was cancelled meanwhile. mismatched: the gateway names another amount.
    status           text NOT NULL CHECK (status IN
                         ('pending', 'captured', 'failed', 'refund_due', 'refunded', 'mismatched')),
    outcome          text,
    reference        text,
    code             text,
    message          text,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    refunded_at      timestamptz,
    -- When a pending charge, or a refund that is due, is looked at next.
    next_attempt_at  timestamptz,
    -- Since when the gateway has not known of it, though it was sent.
    missing_since    timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, order_id, attempt),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((status IN ('captured', 'refund_due', 'refunded', 'mismatched')) = (reference IS NOT NULL))
);
-- Nobody is charged twice: at most one charge of an order is open or captured.
CREATE UNIQUE INDEX charges_one_per_order ON charges (account_id, order_id) WHERE status IN ('pending', 'captured');
CREATE INDEX charges_due ON charges (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- What the simulated gateway remembers, as another company's database would.
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

-- Invoices -----------------------------------------------------------------------------------------------------

-- One gapless series per mode: the number is taken in the transaction that writes the invoice.
CREATE TABLE invoice_series (
    mode         mode PRIMARY KEY,
    last_number  bigint NOT NULL DEFAULT 0
);
INSERT INTO invoice_series (mode) VALUES ('live'), ('test');

CREATE TABLE invoices (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    -- What a payer writes on the transfer.
    reference        text NOT NULL UNIQUE,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    status           text NOT NULL CHECK (status IN ('open', 'paid', 'cancelled')),
    issued_on        date NOT NULL,
    due_on           date NOT NULL CHECK (due_on >= issued_on),
    -- The invoice as it was sent, frozen: JSON, UTF-8.
    record           bytea NOT NULL,
    mailed_at        timestamptz,
    reminded_at      timestamptz,
    settled_at       timestamptz,
    settled_by       text,
    created_at       timestamptz NOT NULL,
    -- When a worker looks at it next: to mail it, to remind, to cancel.
    next_attempt_at  timestamptz,
    PRIMARY KEY (account_id, order_id),
    UNIQUE (mode, number),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX invoices_due ON invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- Money that arrived by bank transfer, one row per line of a statement; a line that comes twice is known.
CREATE TABLE bank_transfers (
    id             text PRIMARY KEY,
    digest         bytea NOT NULL UNIQUE,
    mode           mode NOT NULL,
    booked_on      date NOT NULL,
    amount_minor   bigint NOT NULL,
    currency       currency NOT NULL,
    payer          text NOT NULL,
    reference      text NOT NULL,
    outcome        text NOT NULL CHECK (outcome IN ('matched', 'over', 'under', 'unknown', 'not_open')),
    account_id     text,
    order_id       text,
    imported_at    timestamptz NOT NULL,
    imported_by    text NOT NULL
);
CREATE INDEX bank_transfers_of_invoice ON bank_transfers (account_id, order_id) WHERE order_id IS NOT NULL;

-- Supply -------------------------------------------------------------------------------------------------------

-- What an order gets of each project, fixed when its supply is guaranteed.
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

-- A run of whole registry units taken from a lot, retired as one. Its place in the lot is counted in grams from the
-- lot's first serial, so runs follow each other and the lot's allocated_grams is where the next one begins.
CREATE TABLE parcels (
    mode              mode NOT NULL,
    id                text NOT NULL,
    lot_id            text NOT NULL,
    project_id        text NOT NULL,
    start_grams       bigint NOT NULL CHECK (start_grams >= 0),
    quantity_grams    bigint NOT NULL CHECK (quantity_grams > 0),
    -- How much of it belongs to orders: all, except in a unit that fractions share.
    allocated_grams   bigint NOT NULL CHECK (allocated_grams > 0 AND allocated_grams <= quantity_grams),
    -- Whose fractions it takes; null when it is retired in the service's name and serves everybody's.
    account_id        text,
    beneficiary       text NOT NULL,
    in_service_name   boolean NOT NULL,
    status            text NOT NULL CHECK (status IN ('open', 'to_retire', 'retired')),
    opened_at         timestamptz NOT NULL,
    -- A unit that is still open then is retired in the service's name.
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
-- Units with room for more fractions.
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
    -- On whose behalf, as the account said when supply was guaranteed.
    beneficiary      text NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    PRIMARY KEY (account_id, order_id, line_position, parcel_id),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines,
    FOREIGN KEY (mode, parcel_id) REFERENCES parcels
);
CREATE INDEX shares_of_parcel ON shares (mode, parcel_id);
CREATE INDEX shares_of_organisation ON shares (organisation_id, mode, parcel_id);

-- Certificates -------------------------------------------------------------------------------------------------

CREATE TABLE certificates (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           text NOT NULL UNIQUE,
    issued_at        timestamptz NOT NULL,
    -- All that PDF, page and JSON show, frozen: JSON, UTF-8.
    record           bytea NOT NULL,
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
-- Every PDF that ever went out of a certificate, by its SHA-256: a later release may draw it differently, and both are
-- genuine.
CREATE TABLE certificate_documents (
    number       text NOT NULL REFERENCES certificates (number),
    sha256       bytea NOT NULL CHECK (length(sha256) = 32),
    rendered_at  timestamptz NOT NULL,
    PRIMARY KEY (number, sha256)
);
