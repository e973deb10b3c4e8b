-- compatible_from: 1
-- What an operator has dealt with by hand: `tonne doctor` then no longer lists it.

-- gateways -----------------------------------------------------------------------------------------------------

-- A mail that was given up, and that nobody wants to send any more.
ALTER TABLE mails ADD COLUMN discarded_at timestamptz;
CREATE INDEX mails_given_up ON mails (created_at)
    WHERE sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL;
CREATE INDEX mails_held ON mails (created_at) WHERE held_reason IS NOT NULL;

-- invoices -----------------------------------------------------------------------------------------------------

-- What was done about a transfer that did not settle an invoice, or not exactly.
ALTER TABLE bank_transfers
    ADD COLUMN resolved_at timestamptz,
    ADD COLUMN resolution text CHECK (length(resolution) BETWEEN 1 AND 500);
CREATE INDEX bank_transfers_unresolved ON bank_transfers (imported_at)
    WHERE resolved_at IS NULL AND outcome <> 'matched' AND amount_minor > 0;
