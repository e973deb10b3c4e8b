-- compatible_from: 34
-- transaction: none

-- cards --------------------------------------------------------------------------------------------------------

-- For the receipts of an organisation, newest first, and the card payments of an invoice.
CREATE INDEX CONCURRENTLY IF NOT EXISTS charges_receipts ON charges (organisation_id, mode, settled_at, id)
    WHERE status IN ('captured', 'refunded');
CREATE INDEX CONCURRENTLY IF NOT EXISTS charges_of_invoice ON charges (invoice_id) WHERE invoice_id IS NOT NULL;

-- invoices -----------------------------------------------------------------------------------------------------

-- What is owed, by due date, and the invoices of an organisation, newest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_open ON invoices (mode, due_on, id) WHERE status = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_numbered ON invoices (organisation_id, mode, number);
-- Who paid from an account before.
CREATE INDEX CONCURRENTLY IF NOT EXISTS bank_transfers_of_payer ON bank_transfers (payer_iban) WHERE payer_iban <> '';

-- Bank statements that an operator has uploaded and neither imported nor discarded. The row is deleted then, or after
-- a week.
CREATE TABLE IF NOT EXISTS statement_uploads (
    id            text PRIMARY KEY,
    mode          mode NOT NULL,
    file_name     text NOT NULL CHECK (length(file_name) BETWEEN 1 AND 200),
    content       bytea NOT NULL,
    -- How to read a CSV file, and the own account, where the file does not say so.
    date_order    text,
    decimal_mark  text,
    own_iban      text,
    uploaded_at   timestamptz NOT NULL,
    uploaded_by   text NOT NULL
);

-- journal ------------------------------------------------------------------------------------------------------

-- The sums of a month as they were when an operator computed them. Summing a month reads all its records.
CREATE TABLE IF NOT EXISTS month_totals (
    mode         mode NOT NULL,
    -- Its first day.
    month        date NOT NULL CHECK (extract(day FROM month) = 1),
    -- Per account and currency: debits and credits.
    totals       jsonb NOT NULL,
    computed_at  timestamptz NOT NULL,
    computed_by  text NOT NULL,
    PRIMARY KEY (mode, month)
);
