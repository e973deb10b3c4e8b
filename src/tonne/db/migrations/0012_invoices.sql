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
    ADD CHECK (fulfil = 'on_payment' OR credit_limit_minor IS NOT NULL);

-- invoices -----------------------------------------------------------------------------------------------------

-- Ids as base/ids.py makes them: 48 bits of milliseconds, 80 random bits.
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
