-- Every booked line of a bank statement is one transfer, whatever the format, and stays visible until it is dealt with.

-- invoices -----------------------------------------------------------------------------------------------------

-- Settled by a person without a transfer, or in test mode. A transfer that arrives later is then matched to it.
ALTER TABLE invoices ADD COLUMN settled_by_hand boolean NOT NULL DEFAULT false;

-- `own_account` is the seller's account, empty if the file did not say. `bank_references` are the bank's own references
-- of this line, as FORMAT:REFERENCE. `invoice_id` is the invoice that the payer named. `resolved_minor` was dealt with
-- in another way, which `resolution` describes.
DROP INDEX bank_transfers_unresolved;
ALTER TABLE bank_transfers
    ADD COLUMN own_account      text NOT NULL DEFAULT '',
    ADD COLUMN format           text NOT NULL DEFAULT 'csv' CHECK (format IN ('csv', 'camt.053', 'mt940')),
    ADD COLUMN payer_iban       text NOT NULL DEFAULT '',
    ADD COLUMN payer_bic        text NOT NULL DEFAULT '',
    ADD COLUMN end_to_end_id    text NOT NULL DEFAULT '',
    ADD COLUMN bank_references  text[] NOT NULL DEFAULT '{}',
    ADD COLUMN is_reversal      boolean NOT NULL DEFAULT false,
    ADD COLUMN resolved_minor   bigint NOT NULL DEFAULT 0 CHECK (resolved_minor >= 0),
    ADD COLUMN state            text CHECK (state IN ('matched', 'part_payment', 'overpaid', 'unmatched', 'assigned',
                                                      'to_return', 'returned', 'outgoing'));

-- What a transfer paid of an invoice. It is undone by a row with the opposite amount.
CREATE TABLE transfer_assignments (
    id            text PRIMARY KEY,
    transfer_id   text NOT NULL REFERENCES bank_transfers,
    invoice_id    text NOT NULL REFERENCES invoices,
    amount_minor  bigint NOT NULL CHECK (amount_minor <> 0),
    by_operator   boolean NOT NULL,
    undoes        text UNIQUE REFERENCES transfer_assignments,
    note          text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL,
    created_by    text NOT NULL,
    CHECK ((amount_minor < 0) = (undoes IS NOT NULL))
);
CREATE INDEX transfer_assignments_of_transfer ON transfer_assignments (transfer_id);
CREATE INDEX transfer_assignments_of_invoice ON transfer_assignments (invoice_id);

-- Money that is to go back. With `invoice_id`, it is a refund of what the invoice received; otherwise it is money that
-- is assigned to no invoice. `to_other_account`: not to the account that the money came from. `outgoing_id` is the line of a statement that shows the payment.
CREATE TABLE return_batches (
    id          text PRIMARY KEY,
    mode        mode NOT NULL,
    currency    currency NOT NULL,
    own_iban    text NOT NULL,
    format      text NOT NULL CHECK (format IN ('sepa', 'csv')),
    content     bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL
);
CREATE TABLE transfer_returns (
    id                text PRIMARY KEY,
    transfer_id       text NOT NULL REFERENCES bank_transfers,
    invoice_id        text REFERENCES invoices,
    amount_minor      bigint NOT NULL CHECK (amount_minor > 0),
    to_iban           text NOT NULL,
    to_bic            text NOT NULL,
    to_name           text NOT NULL,
    reason            text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    status            text NOT NULL CHECK (status IN ('planned', 'exported', 'returned', 'failed', 'cancelled')),
    to_other_account  boolean NOT NULL,
    approved_by       text,
    approved_at       timestamptz,
    batch_id          text REFERENCES return_batches,
    outgoing_id       text UNIQUE REFERENCES bank_transfers,
    note              text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL,
    created_by        text NOT NULL,
    closed_at         timestamptz,
    CHECK ((status IN ('returned', 'failed', 'cancelled')) = (closed_at IS NOT NULL)),
    CHECK (status <> 'exported' OR batch_id IS NOT NULL)
);
CREATE INDEX transfer_returns_of_transfer ON transfer_returns (transfer_id);
CREATE INDEX transfer_returns_open ON transfer_returns (created_at) WHERE status IN ('planned', 'exported');

-- Lines that may be a transfer which was imported in another format. They are not counted until a person has decided.
CREATE TABLE doubtful_lines (
    id           text PRIMARY KEY,
    transfer_id  text NOT NULL REFERENCES bank_transfers,
    fingerprint  bytea NOT NULL UNIQUE,
    mode         mode NOT NULL,
    format       text NOT NULL,
    line         jsonb NOT NULL,
    is_same      boolean,
    imported_at  timestamptz NOT NULL,
    imported_by  text NOT NULL,
    decided_at   timestamptz,
    decided_by   text,
    CHECK ((is_same IS NULL) = (decided_at IS NULL))
);
CREATE INDEX doubtful_lines_open ON doubtful_lines (imported_at) WHERE is_same IS NULL;

-- What each transfer paid so far: in the order of their dates, up to what the invoice asked for. Parts of cancelled
-- invoices are assigned to nothing: they were never returned, or somebody resolved them.
INSERT INTO transfer_assignments (id, transfer_id, invoice_id, amount_minor, by_operator, created_at, created_by)
SELECT 'asg_' || substr(paid.id, 5), paid.id, paid.invoice_id, paid.part_minor, false, paid.imported_at, paid.imported_by
FROM (SELECT transfer.id, transfer.invoice_id, transfer.imported_at, transfer.imported_by,
             least(transfer.amount_minor,
                   coalesce(invoices.settled_minor, invoices.total_minor - invoices.credited_minor)
                   - coalesce(sum(transfer.amount_minor) OVER earlier, 0)) AS part_minor
      FROM bank_transfers transfer JOIN invoices ON invoices.id = transfer.invoice_id
      WHERE transfer.outcome IN ('matched', 'over', 'under') AND invoices.status <> 'cancelled'
      WINDOW earlier AS (PARTITION BY transfer.invoice_id ORDER BY transfer.booked_on, transfer.id
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS paid
WHERE paid.part_minor > 0;

UPDATE bank_transfers transfer
SET resolved_minor = transfer.amount_minor - coalesce((SELECT sum(each.amount_minor) FROM transfer_assignments each
                                                       WHERE each.transfer_id = transfer.id), 0)
WHERE transfer.resolved_at IS NOT NULL AND transfer.amount_minor > 0;
UPDATE bank_transfers transfer SET state = CASE
    WHEN transfer.amount_minor <= 0 THEN 'outgoing'
    WHEN transfer.amount_minor - transfer.resolved_minor > coalesce(assigned.minor, 0)
        THEN CASE WHEN assigned.minor > 0 THEN 'overpaid' ELSE 'unmatched' END
    WHEN transfer.resolved_minor > 0 THEN 'assigned'
    WHEN assigned.is_open THEN 'part_payment'
    ELSE 'matched' END
FROM bank_transfers each LEFT JOIN LATERAL (
    SELECT sum(assignment.amount_minor) AS minor, bool_or(invoices.status = 'open') AS is_open
    FROM transfer_assignments assignment JOIN invoices ON invoices.id = assignment.invoice_id
    WHERE assignment.transfer_id = each.id) AS assigned ON true
WHERE each.id = transfer.id;
UPDATE invoices SET settled_by_hand = true
WHERE invoices.status = 'paid' AND invoices.settled_minor > coalesce(
    (SELECT sum(each.amount_minor) FROM transfer_assignments each WHERE each.invoice_id = invoices.id), 0);

ALTER TABLE bank_transfers ALTER COLUMN state SET NOT NULL, DROP COLUMN outcome, DROP COLUMN digest;
CREATE INDEX bank_transfers_open ON bank_transfers (imported_at)
    WHERE state IN ('unmatched', 'overpaid', 'to_return');
CREATE INDEX bank_transfers_by_day ON bank_transfers (booked_on, amount_minor);
CREATE INDEX bank_transfers_by_reference ON bank_transfers USING gin (bank_references);
