-- compatible_from: 10
-- A release that does not know invalid lots sees them as used up. It may assign fractions of a retired unit of an
-- invalid lot while both releases run: run `tonne lot show` for the lot after the upgrade.

-- retirements --------------------------------------------------------------------------------------------------

-- The cost of a tonne in minor units of `cost_currency`, for the journal.
ALTER TABLE lots
    ADD COLUMN unit_cost_minor bigint CHECK (unit_cost_minor >= 0),
    ADD COLUMN cost_currency text CHECK (cost_currency ~ '^[A-Z]{3}$'),
    ADD CONSTRAINT lots_cost_currency CHECK ((unit_cost_minor IS NULL) = (cost_currency IS NULL)),
    -- A lot whose credits turned out to be worthless. Nothing is sold from it any more: `allocated_grams` is the whole
    -- lot, and `invalid_grams` are those that no parcel had.
    ADD COLUMN invalidated_at timestamptz,
    ADD COLUMN invalidated_by text,
    ADD COLUMN invalid_reason text CHECK (length(invalid_reason) BETWEEN 1 AND 500),
    ADD COLUMN invalid_grams bigint NOT NULL DEFAULT 0 CHECK (invalid_grams >= 0),
    ADD CONSTRAINT lots_invalidated CHECK (
        (invalidated_at IS NULL) = (invalid_reason IS NULL) AND (invalidated_at IS NULL) = (invalidated_by IS NULL)
        AND (invalidated_at IS NOT NULL OR invalid_grams = 0));
ALTER TABLE withdrawn_lots
    ADD COLUMN unit_cost_minor bigint,
    ADD COLUMN cost_currency text;

-- A parcel of an invalid lot is `invalid`, or stays `retired`: the retirement is a fact at the registry. Orders that are
-- supplied from another lot give back their share, so that nothing of it may be left.
ALTER TABLE parcels
    ADD COLUMN invalidated_at timestamptz,
    -- When a unit in the service's name was put on the work list. Null for units that were closed by earlier releases.
    ADD COLUMN closed_at timestamptz,
    DROP CONSTRAINT parcels_status_check,
    ADD CONSTRAINT parcels_status_check CHECK (status IN ('open', 'to_retire', 'retired', 'invalid')),
    DROP CONSTRAINT parcels_check,
    ADD CONSTRAINT parcels_allocated_grams_check CHECK (
        allocated_grams BETWEEN 0 AND quantity_grams AND (allocated_grams > 0 OR invalidated_at IS NOT NULL)),
    ADD CONSTRAINT parcels_invalidated CHECK (status <> 'invalid' OR invalidated_at IS NOT NULL);
CREATE INDEX parcels_by_retirement_url ON parcels (mode, retirement_url)
    WHERE retirement_url IS NOT NULL AND status = 'retired';

-- The orders that hold grams of an invalid lot, one row each, until they are dealt with.
CREATE TABLE lot_cases (
    mode                mode NOT NULL,
    lot_id              text NOT NULL,
    account_id          text NOT NULL,
    order_id            text NOT NULL,
    organisation_id     text NOT NULL,
    quantity_grams      bigint NOT NULL CHECK (quantity_grams > 0),
    -- The certificate that states the lot; null if none had been issued.
    certificate_number  text,
    -- undecided: the operator decides. resupply: waits for other credits. retiring: has them, the certificate is issued
    -- again when they are retired. resupplied, reissued, withdrawn: done.
    state               text NOT NULL CHECK (
                            state IN ('undecided', 'resupply', 'retiring', 'resupplied', 'reissued', 'withdrawn')),
    opened_at           timestamptz NOT NULL,
    -- When a worker looks at it next.
    next_attempt_at     timestamptz,
    decided_by          text,
    -- When the order got credits of other lots.
    resupplied_at       timestamptz,
    done_at             timestamptz,
    PRIMARY KEY (mode, lot_id, account_id, order_id),
    FOREIGN KEY (mode, lot_id) REFERENCES lots,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((state IN ('resupplied', 'reissued', 'withdrawn')) = (done_at IS NOT NULL))
);
CREATE INDEX lot_cases_due ON lot_cases (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX lot_cases_of_order ON lot_cases (account_id, order_id);

-- Set for a share that replaces one of an invalid lot: when the order got it. Null: when the order was allocated.
ALTER TABLE shares ADD COLUMN assigned_at timestamptz;

-- Shares of invalid lots that orders had before they were supplied from other lots.
CREATE TABLE replaced_shares (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    line_position    smallint NOT NULL,
    mode             mode NOT NULL,
    parcel_id        text NOT NULL,
    organisation_id  text NOT NULL,
    beneficiary      text NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    replaced_at      timestamptz NOT NULL,
    PRIMARY KEY (account_id, order_id, line_position, parcel_id),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines,
    FOREIGN KEY (mode, parcel_id) REFERENCES parcels
);
CREATE INDEX replaced_shares_of_parcel ON replaced_shares (mode, parcel_id);
