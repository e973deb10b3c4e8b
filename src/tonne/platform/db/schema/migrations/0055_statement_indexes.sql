-- compatible_from: 34
-- transaction: none

-- cards --------------------------------------------------------------------------------------------------------

CREATE INDEX CONCURRENTLY IF NOT EXISTS charges_of_invoices ON charges (organisation_id, mode, settled_at)
    WHERE invoice_id IS NOT NULL AND status IN ('captured', 'refunded');

-- invoices -----------------------------------------------------------------------------------------------------

-- Whose payment it is, in which currency, and on which day it counts: copied from the invoice and the transfer, which
-- never change them, so that an organisation's payments are summed from one index. Null until the batches below.
ALTER TABLE transfer_assignments
    ADD COLUMN IF NOT EXISTS organisation_id text,
    ADD COLUMN IF NOT EXISTS mode text,
    ADD COLUMN IF NOT EXISTS currency text,
    ADD COLUMN IF NOT EXISTS day date;

-- A trigger, because servers of the previous release also assign transfers while the release changes.
CREATE OR REPLACE FUNCTION note_owner_of_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT invoices.organisation_id, invoices.mode, invoices.currency,
           CASE WHEN NEW.amount_minor < 0 THEN (NEW.created_at AT TIME ZONE 'UTC')::date ELSE transfer.booked_on END
    INTO NEW.organisation_id, NEW.mode, NEW.currency, NEW.day
    FROM invoices CROSS JOIN bank_transfers transfer
    WHERE invoices.id = NEW.invoice_id AND transfer.id = NEW.transfer_id;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER assignments_have_an_owner BEFORE INSERT ON transfer_assignments
    FOR EACH ROW EXECUTE FUNCTION note_owner_of_assignment();

-- repeat until it changes no row
UPDATE transfer_assignments paid
SET organisation_id = invoices.organisation_id, mode = invoices.mode, currency = invoices.currency,
    day = CASE WHEN paid.amount_minor < 0 THEN (paid.created_at AT TIME ZONE 'UTC')::date ELSE transfer.booked_on END
FROM invoices, bank_transfers transfer
WHERE invoices.id = paid.invoice_id AND transfer.id = paid.transfer_id
  AND paid.id IN (SELECT id FROM transfer_assignments WHERE organisation_id IS NULL LIMIT 5000);

-- They contain all that a balance needs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS transfer_assignments_owed
    ON transfer_assignments (organisation_id, mode, currency, day) INCLUDE (amount_minor);
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_owed ON invoices (organisation_id, mode, currency, issued_on)
    INCLUDE (total_minor);
CREATE INDEX CONCURRENTLY IF NOT EXISTS credit_notes_owed ON credit_notes (organisation_id, mode, currency, issued_on)
    INCLUDE (total_minor);
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_settled_by_hand ON invoices (organisation_id, mode, settled_at)
    WHERE status = 'paid' AND settled_by_hand;

-- refunds ------------------------------------------------------------------------------------------------------

CREATE INDEX CONCURRENTLY IF NOT EXISTS refunds_made ON refunds (organisation_id, mode, settled_at)
    WHERE state = 'succeeded';
