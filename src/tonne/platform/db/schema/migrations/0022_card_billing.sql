-- Orders of an account that pays by card can be billed together: one charge of the stored card pays the invoice.

-- accounts -----------------------------------------------------------------------------------------------------

-- An account that pays by card was billed per order. Orders are still not fulfilled before the card is charged.
DO $$
DECLARE
    name text;
BEGIN
    SELECT conname INTO STRICT name FROM pg_constraint
    WHERE conrelid = 'accounts'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%payment_method%per_order%';
    EXECUTE format('ALTER TABLE accounts DROP CONSTRAINT %I', name);
END
$$;
ALTER TABLE accounts ADD CONSTRAINT accounts_credit_by_invoice CHECK (payment_method = 'invoice' OR fulfil = 'on_payment');

-- cards --------------------------------------------------------------------------------------------------------

-- A charge pays for one order, or for all orders of an invoice.
ALTER TABLE charges
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN invoice_id text REFERENCES invoices,
    ADD CHECK (num_nonnulls(order_id, invoice_id) = 1),
    ADD CHECK (invoice_id IS NULL OR source <> 'hosted_page'),
    ADD UNIQUE (invoice_id, attempt);
-- Prevents double charges, as `charges_one_per_order` does.
CREATE UNIQUE INDEX charges_one_per_invoice ON charges (invoice_id) WHERE status IN ('pending', 'captured');

-- Invoices that the stored card of their account pays. All their orders are of that account.
CREATE TABLE card_invoices (
    invoice_id       text PRIMARY KEY REFERENCES invoices,
    account_id       text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- When the card is charged next; null while a charge is pending, and once the invoice is closed.
    next_attempt_at  timestamptz
);
CREATE INDEX card_invoices_due ON card_invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX card_invoices_of_account ON card_invoices (account_id);

-- invoices -----------------------------------------------------------------------------------------------------

-- The account whose card pays for the orders of the group; empty for groups that are paid by bank transfer.
ALTER TABLE billing_groups ADD COLUMN account_id text NOT NULL DEFAULT '';
DO $$
DECLARE
    name text;
BEGIN
    SELECT conname INTO STRICT name FROM pg_constraint WHERE conrelid = 'billing_groups'::regclass AND contype = 'u';
    EXECUTE format('ALTER TABLE billing_groups DROP CONSTRAINT %I', name);
END
$$;
ALTER TABLE billing_groups ADD CONSTRAINT billing_groups_one_per_settings
    UNIQUE (organisation_id, mode, currency, billing, threshold_minor, account_id);

-- refunds ------------------------------------------------------------------------------------------------------

-- A refund that began at the gateway is divided among the orders that its charge paid for.
DROP INDEX refunds_by_reference;
CREATE UNIQUE INDEX refunds_by_reference ON refunds (charge_id, order_id, reference) WHERE reference IS NOT NULL;
CREATE INDEX refunds_of_charge ON refunds (charge_id) WHERE charge_id IS NOT NULL;
-- A dispute of a charge that paid for an invoice concerns all its orders: it names none.
ALTER TABLE disputes ALTER COLUMN order_id DROP NOT NULL;
