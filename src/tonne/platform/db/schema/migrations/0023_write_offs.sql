-- compatible_from: 21

-- orders -------------------------------------------------------------------------------------------------------

-- Why a placed order is not fulfilled yet. It has no meaning after `placed`.
ALTER TABLE orders ADD COLUMN hold_reason text CHECK (hold_reason IN ('credit_limit_reached'));

-- invoices -----------------------------------------------------------------------------------------------------

-- An open invoice that is no longer expected to be paid. It stays open, because it is still owed: what arrives later
-- pays it. Null if it was reinstated.
ALTER TABLE invoices ADD COLUMN written_off_at timestamptz;

-- `amount_minor` is what was open when it was booked, until then when it was requested. `undone_minor` is what was still
-- open of it when the invoice was reinstated. `releases_credit`: its orders no longer use the credit limit.
CREATE TABLE write_offs (
    id               text PRIMARY KEY,
    invoice_id       text NOT NULL REFERENCES invoices,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    releases_credit  boolean NOT NULL,
    state            text NOT NULL CHECK (state IN ('approval', 'booked', 'withdrawn', 'undone')),
    requested_at     timestamptz NOT NULL,
    requested_by     text NOT NULL,
    approved_by      text,
    booked_at        timestamptz,
    undone_at        timestamptz,
    undone_by        text,
    undone_minor     bigint CHECK (undone_minor >= 0),
    undo_reason      text CHECK (length(undo_reason) BETWEEN 1 AND 500),
    CHECK ((state IN ('booked', 'undone')) = (booked_at IS NOT NULL)),
    CHECK ((state = 'undone') = (undone_minor IS NOT NULL)),
    CHECK ((state IN ('withdrawn', 'undone')) = (undone_at IS NOT NULL))
);
CREATE UNIQUE INDEX write_offs_of_invoice ON write_offs (invoice_id) WHERE state IN ('approval', 'booked');
CREATE INDEX write_offs_by_time ON write_offs (requested_at);

-- Whether the invoice was written off at that moment: then the journal books it as the recovery of a bad debt.
ALTER TABLE transfer_assignments ADD COLUMN recovers boolean NOT NULL DEFAULT false;
ALTER TABLE credit_notes ADD COLUMN recovers boolean NOT NULL DEFAULT false;

-- The line of a statement that shows the money of a return coming back.
ALTER TABLE transfer_returns ADD COLUMN incoming_id text UNIQUE REFERENCES bank_transfers;
-- The day on which the bank booked it, if a statement shows it.
UPDATE transfer_returns back SET returned_at = outgoing.booked_on::timestamp AT TIME ZONE 'UTC'
FROM bank_transfers outgoing WHERE outgoing.id = back.outgoing_id AND back.returned_at IS NOT NULL;
