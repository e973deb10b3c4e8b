-- When money moved, also if that was undone later: the journal books both, each in its own month.

-- cards --------------------------------------------------------------------------------------------------------

-- When an operator accepted a payment that arrived with another amount.
ALTER TABLE charges ADD COLUMN accepted_at timestamptz;

-- invoices -----------------------------------------------------------------------------------------------------

-- When the money left the bank. It stays when the return fails later.
ALTER TABLE transfer_returns ADD COLUMN returned_at timestamptz;
UPDATE transfer_returns SET returned_at = closed_at WHERE status = 'returned';

-- What was dealt with in another way than to assign or return it. It is undone by a row with the opposite amount.
-- `bank_transfers.resolved_minor` is the sum. `is_payout`: the transfer is a payout of the card gateway.
CREATE TABLE transfer_resolutions (
    id            text PRIMARY KEY,
    transfer_id   text NOT NULL REFERENCES bank_transfers,
    amount_minor  bigint NOT NULL CHECK (amount_minor <> 0),
    is_payout     boolean NOT NULL,
    undoes        text UNIQUE REFERENCES transfer_resolutions,
    note          text NOT NULL,
    created_at    timestamptz NOT NULL,
    created_by    text NOT NULL,
    CHECK ((amount_minor < 0) = (undoes IS NOT NULL))
);
CREATE INDEX transfer_resolutions_of_transfer ON transfer_resolutions (transfer_id);
INSERT INTO transfer_resolutions (id, transfer_id, amount_minor, is_payout, note, created_at, created_by)
SELECT 'rsl_' || substr(transfer.id, 5), transfer.id, transfer.resolved_minor,
       EXISTS (SELECT FROM gateway_payouts payout WHERE payout.transfer_id = transfer.id),
       coalesce(transfer.resolution, ''), coalesce(transfer.resolved_at, transfer.imported_at), 'system:migration'
FROM bank_transfers transfer WHERE transfer.resolved_minor > 0;

-- refunds ------------------------------------------------------------------------------------------------------

-- It stays when the refund fails later.
ALTER TABLE refunds ADD COLUMN succeeded_at timestamptz;
UPDATE refunds SET succeeded_at = settled_at WHERE state = 'succeeded';

-- When the gateway first withdrew money: an inquiry may become a dispute later.
ALTER TABLE disputes ADD COLUMN taken_at timestamptz;
UPDATE disputes SET taken_at = opened_at WHERE taken_minor > 0;
