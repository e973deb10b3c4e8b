-- compatible_from: 34
-- transaction: none

-- estimates ----------------------------------------------------------------------------------------------------

-- The unit that the quantity of the estimate's quote is cut to.
ALTER TABLE estimates ADD COLUMN IF NOT EXISTS quantity_trunc text;

-- orders -------------------------------------------------------------------------------------------------------

-- `quantity_trunc` is kept, as `bundle_selection` is, to price a received order later. `quote_id` is the locked quote
-- that fixed the price.
ALTER TABLE orders
    ADD COLUMN IF NOT EXISTS quantity_trunc text,
    ADD COLUMN IF NOT EXISTS quote_id text;

-- The URL of the project's logo when supply was allocated.
ALTER TABLE order_projects ADD COLUMN IF NOT EXISTS project_logo text;

-- Orders of an estimate. Only orders by estimate have an entry.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_of_estimate
    ON orders (account_id, estimate_id, created_at DESC, id DESC) WHERE estimate_id IS NOT NULL;

-- Prices that are fixed until `expires_at`. `locked` is the price with all that it depends on, as JSON; `document` the
-- JSON that the API returns, up to its status. A quote is used by one order. No foreign key to orders: it would cost a
-- lookup for every order.
CREATE TABLE IF NOT EXISTS quotes (
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
CREATE UNIQUE INDEX IF NOT EXISTS quotes_by_key ON quotes (account_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS quotes_holding ON quotes (organisation_id, mode) WHERE is_holding;
CREATE INDEX IF NOT EXISTS quotes_by_expiry ON quotes (expires_at);

-- retirements --------------------------------------------------------------------------------------------------

-- Quotes hold supply, too: `checkout_id` is then the id of the quote, without a link and a customer.
-- small table: it has only what is held now
ALTER TABLE supply_holds ALTER COLUMN offset_link_id DROP NOT NULL;
-- small table: it has only what is held now
ALTER TABLE supply_holds ALTER COLUMN client_hash DROP NOT NULL;

-- quotes -------------------------------------------------------------------------------------------------------

-- How many grams the quotes of an account, or of all accounts of an organisation without a quota of their own, may hold.
CREATE TABLE IF NOT EXISTS hold_quotas (
    -- An account or an organisation.
    subject_id       text NOT NULL,
    mode             mode NOT NULL,
    organisation_id  text NOT NULL,
    quota_grams      bigint NOT NULL CHECK (quota_grams BETWEEN 1 AND 100000000000000),
    PRIMARY KEY (subject_id, mode)
);
CREATE INDEX IF NOT EXISTS hold_quotas_of_organisation ON hold_quotas (organisation_id, mode);
