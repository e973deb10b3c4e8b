-- accounts -----------------------------------------------------------------------------------------------------

ALTER TABLE accounts
    -- When orders are billed: each on an invoice of its own, or together at the end of the month (UTC), or earlier, as
    -- soon as they reach the threshold.
    ADD COLUMN billing                  text NOT NULL DEFAULT 'per_order'
                                            CHECK (billing IN ('per_order', 'monthly', 'threshold')),
    ADD COLUMN billing_threshold_minor  bigint CHECK (billing_threshold_minor > 0),
    -- Whether orders are fulfilled once they are paid, or at once within the credit limit.
    ADD COLUMN fulfil                   text NOT NULL DEFAULT 'on_payment' CHECK (fulfil IN ('on_payment', 'on_order')),
    ADD COLUMN credit_limit_minor       bigint CHECK (credit_limit_minor > 0),
    ADD CHECK ((billing = 'threshold') = (billing_threshold_minor IS NOT NULL)),
    ADD CHECK (fulfil = 'on_payment' OR credit_limit_minor IS NOT NULL),
    -- A card is charged for one order at a time.
    ADD CHECK (payment_method = 'invoice' OR (billing = 'per_order' AND fulfil = 'on_payment'));

-- orders -------------------------------------------------------------------------------------------------------

-- Fulfilled on credit and not paid yet: they count against the credit limit.
CREATE INDEX orders_on_credit ON orders (account_id)
    WHERE payment_state = 'unpaid' AND status IN ('paid', 'retiring', 'complete');

-- invoices -----------------------------------------------------------------------------------------------------

-- Ids as platform/values/ids.py makes them: 48 bits of milliseconds, 80 random bits.
CREATE FUNCTION pg_temp.new_id(prefix text, at timestamptz) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT prefix || '_' || string_agg(
        substr('0123456789abcdefghijklmnopqrstuv', 1 + substring(raw.bits FROM 1 + 5 * digit FOR 5)::bit(5)::integer, 1),
        '' ORDER BY digit)
    FROM (SELECT floor(extract(epoch FROM at) * 1000)::bigint::bit(48)
                 || ('x' || substr(md5(gen_random_uuid()::text), 1, 20))::bit(80) || B'00' AS bits) AS raw,
         generate_series(0, 25) AS digit
$$;

ALTER TABLE invoices
    ADD COLUMN id              text,
    ADD COLUMN billing         text NOT NULL DEFAULT 'per_order' CHECK (billing IN ('per_order', 'monthly', 'threshold')),
    ADD COLUMN payment_method  text NOT NULL DEFAULT 'invoice' CHECK (payment_method IN ('invoice', 'card')),
    ADD COLUMN order_count     integer NOT NULL DEFAULT 1 CHECK (order_count > 0),
    -- Part of the total; null where no tax is computed.
    ADD COLUMN tax_minor       bigint CHECK (tax_minor >= 0),
    -- The sum of its credit notes. What is due is the total less this.
    ADD COLUMN credited_minor  bigint NOT NULL DEFAULT 0,
    -- What was due when it was settled.
    ADD COLUMN settled_minor   bigint;

UPDATE invoices SET id = pg_temp.new_id('inv', created_at),
    credited_minor = CASE WHEN status = 'cancelled' THEN total_minor ELSE 0 END,
    settled_minor = CASE WHEN status = 'paid' THEN total_minor END;

-- The orders of an invoice, as they were billed. `reference` is the client's own.
CREATE TABLE invoice_orders (
    invoice_id      text NOT NULL,
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    reference       text NOT NULL,
    placed_at       timestamptz NOT NULL,
    quantity_grams  bigint NOT NULL,
    offset_minor    bigint NOT NULL,
    fee_minor       bigint NOT NULL,
    tax_minor       bigint,
    total_minor     bigint NOT NULL CHECK (total_minor = offset_minor + fee_minor + coalesce(tax_minor, 0)),
    -- Set when a credit note has taken the order off the invoice.
    cancelled       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (invoice_id, account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
INSERT INTO invoice_orders (invoice_id, account_id, order_id, reference, placed_at, quantity_grams, offset_minor,
                            fee_minor, total_minor, cancelled)
SELECT invoices.id, orders.account_id, orders.id, orders.idempotency_key, orders.created_at, orders.quantity_grams,
       orders.total_cost_minor - orders.commission_minor, orders.commission_minor, orders.total_cost_minor,
       invoices.status = 'cancelled'
FROM invoices JOIN orders ON orders.account_id = invoices.account_id AND orders.id = invoices.order_id;

-- An order is billed once.
CREATE UNIQUE INDEX invoice_orders_billed_once ON invoice_orders (account_id, order_id) WHERE NOT cancelled;
CREATE INDEX invoice_orders_of_order ON invoice_orders (account_id, order_id);

ALTER TABLE bank_transfers ADD COLUMN invoice_id text;
UPDATE bank_transfers transfer SET invoice_id = invoices.id
FROM invoices WHERE invoices.account_id = transfer.account_id AND invoices.order_id = transfer.order_id;
DROP INDEX bank_transfers_of_invoice;
ALTER TABLE bank_transfers DROP COLUMN account_id, DROP COLUMN order_id;

ALTER TABLE invoices DROP CONSTRAINT invoices_pkey, DROP COLUMN account_id, DROP COLUMN order_id, ADD PRIMARY KEY (id),
    ADD CHECK (credited_minor BETWEEN 0 AND total_minor),
    ADD CHECK (status <> 'cancelled' OR credited_minor = total_minor),
    ADD CHECK ((status = 'paid') = (settled_minor IS NOT NULL));
ALTER TABLE invoice_orders ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE bank_transfers ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
CREATE INDEX bank_transfers_of_invoice ON bank_transfers (invoice_id) WHERE invoice_id IS NOT NULL;
CREATE INDEX invoices_of_organisation ON invoices (organisation_id, mode, issued_on);

-- Orders that wait for a consolidated invoice are collected in groups: all orders of an organisation, mode and currency
-- whose accounts have the same billing settings.
CREATE TABLE billing_groups (
    id               text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    currency         currency NOT NULL,
    billing          text NOT NULL CHECK (billing IN ('monthly', 'threshold')),
    -- 0 without a threshold, so that it can be part of the key.
    threshold_minor  bigint NOT NULL CHECK (threshold_minor >= 0),
    order_count      bigint NOT NULL CHECK (order_count >= 0),
    total_minor      bigint NOT NULL CHECK (total_minor >= 0),
    -- When its invoice is issued; null while no order waits.
    next_attempt_at  timestamptz,
    UNIQUE (organisation_id, mode, currency, billing, threshold_minor),
    CHECK ((billing = 'threshold') = (threshold_minor > 0)),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
);
CREATE INDEX billing_groups_due ON billing_groups (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- The orders of the groups. A row moves to `invoice_orders` when it is billed.
CREATE TABLE unbilled_orders (
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    group_id        text NOT NULL REFERENCES billing_groups,
    reference       text NOT NULL,
    placed_at       timestamptz NOT NULL,
    quantity_grams  bigint NOT NULL,
    offset_minor    bigint NOT NULL,
    fee_minor       bigint NOT NULL,
    total_minor     bigint NOT NULL CHECK (total_minor = offset_minor + fee_minor),
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX unbilled_orders_of_group ON unbilled_orders (group_id, placed_at);

-- Credit notes, numbered like invoices in a series of their own.
CREATE TABLE credit_note_series (
    mode         mode PRIMARY KEY,
    last_number  bigint NOT NULL DEFAULT 0
);

CREATE TABLE credit_notes (
    id               text PRIMARY KEY,
    invoice_id       text NOT NULL REFERENCES invoices,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    reference        text NOT NULL UNIQUE,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    tax_minor        bigint CHECK (tax_minor BETWEEN 0 AND total_minor),
    -- cancellation: the orders were cancelled. refund: money is returned, the orders stay. correction: the operator
    -- reduces an invoice.
    cause            text NOT NULL CHECK (cause IN ('cancellation', 'refund', 'correction')),
    reason           text CHECK (length(reason) <= 500),
    refund_id        text,
    issued_on        date NOT NULL,
    issued_by        text NOT NULL,
    -- The credit note as it was issued (JSON, UTF-8). Never changed.
    record           bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    mailed_at        timestamptz,
    -- When a worker mails it; null if it is mailed, or if the invoice never was.
    next_attempt_at  timestamptz,
    UNIQUE (mode, number)
);
CREATE INDEX credit_notes_of_invoice ON credit_notes (invoice_id);
CREATE INDEX credit_notes_of_organisation ON credit_notes (organisation_id, mode, issued_on);
CREATE INDEX credit_notes_due ON credit_notes (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- What a credit note takes off each order.
CREATE TABLE credit_note_orders (
    credit_note_id  text NOT NULL REFERENCES credit_notes,
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    offset_minor    bigint NOT NULL,
    fee_minor       bigint NOT NULL,
    tax_minor       bigint,
    total_minor     bigint NOT NULL CHECK (total_minor > 0 AND total_minor = offset_minor + fee_minor + coalesce(tax_minor, 0)),
    PRIMARY KEY (credit_note_id, account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX credit_note_orders_of_order ON credit_note_orders (account_id, order_id);

-- Invoices that were cancelled before there were credit notes get one. It counts as issued now: dates must not run
-- against the numbers of later ones.
INSERT INTO credit_notes (id, invoice_id, organisation_id, mode, number, reference, currency, total_minor, cause, reason,
                          issued_on, issued_by, record, created_at)
SELECT pg_temp.new_id('crn', now()), old.id, old.organisation_id, old.mode, old.credit_number, old.credit_reference,
       old.currency, old.total_minor, 'cancellation', NULL, old.today, 'system:migration',
       convert_to(jsonb_build_object(
           'number', old.credit_reference, 'mode', old.mode, 'issued_on', old.today,
           'invoice_number', old.reference, 'invoice_issued_on', old.issued_on, 'cancels_invoice', true,
           'seller', old.issued -> 'seller', 'buyer', old.issued -> 'buyer', 'currency', old.currency,
           'lines', jsonb_build_array(jsonb_build_object(
               'order_id', old.issued -> 'order_id', 'reference', old.issued -> 'order_id',
               'amount', old.issued -> 'total')),
           'order_count', 1, 'tax', NULL, 'total', old.issued -> 'total', 'reason', NULL, 'note', old.issued -> 'note'
       )::text, 'UTF8'),
       now()
FROM (SELECT numbered.*, (now() AT TIME ZONE 'UTC')::date AS today,
             convert_from(numbered.record, 'UTF8')::jsonb AS issued,
             format('CN-%s-%s', upper(numbered.mode), lpad(numbered.credit_number::text, 6, '0')) AS credit_reference
      FROM (SELECT invoices.*, row_number() OVER (PARTITION BY mode ORDER BY settled_at, number) AS credit_number
            FROM invoices WHERE status = 'cancelled') AS numbered) AS old;
INSERT INTO credit_note_orders (credit_note_id, account_id, order_id, offset_minor, fee_minor, total_minor)
SELECT credit_notes.id, billed.account_id, billed.order_id, billed.offset_minor, billed.fee_minor, billed.total_minor
FROM credit_notes JOIN invoice_orders billed USING (invoice_id);
INSERT INTO credit_note_series (mode, last_number)
SELECT modes.mode, (SELECT count(*) FROM credit_notes WHERE credit_notes.mode = modes.mode)
FROM (VALUES ('live'), ('test')) AS modes (mode);
