-- compatible_from: 19

-- refunds ------------------------------------------------------------------------------------------------------

-- The most that the gateway has withdrawn because of the dispute. Unlike withdrawn_minor, it stays when the dispute is
-- won: the journal books both directions.
ALTER TABLE disputes ADD COLUMN taken_minor bigint NOT NULL DEFAULT 0;
UPDATE disputes SET taken_minor = withdrawn_minor;

-- journal ------------------------------------------------------------------------------------------------------

-- Payouts of the card gateway and the fees it kept, as its report lists them.
CREATE TABLE gateway_payouts (
    id            text PRIMARY KEY,
    mode          mode NOT NULL,
    gateway       text NOT NULL,
    -- The gateway's own id.
    payout_id     text NOT NULL,
    paid_on       date NOT NULL,
    currency      currency NOT NULL,
    amount_minor  bigint NOT NULL,
    fee_minor     bigint NOT NULL,
    -- The line of a bank statement that shows it.
    transfer_id   text UNIQUE REFERENCES bank_transfers,
    imported_at   timestamptz NOT NULL,
    imported_by   text NOT NULL,
    UNIQUE (gateway, payout_id, currency)
);
CREATE INDEX gateway_payouts_by_date ON gateway_payouts (mode, paid_on);
