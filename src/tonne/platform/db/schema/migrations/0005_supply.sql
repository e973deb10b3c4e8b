-- compatible_from: 1
-- A release that does not know `supply_holds` may allocate held grams while both releases run. The order that held them
-- then waits in `paid` for the next lots.

-- accounts -----------------------------------------------------------------------------------------------------

-- A test account may simulate short supply: its orders above this quantity wait in `paid`. Null: it does not.
ALTER TABLE accounts
    ADD COLUMN simulated_supply_grams bigint CHECK (simulated_supply_grams BETWEEN 0 AND 100000000000000),
    ADD CHECK (simulated_supply_grams IS NULL OR mode = 'test');

-- catalog ------------------------------------------------------------------------------------------------------

-- What orders of the bundle were meant to get of the project, minus what is common to all its projects in proportion to
-- their weights. Allocation prefers the project that is furthest below its share.
ALTER TABLE bundle_projects ADD COLUMN drawn_grams bigint NOT NULL DEFAULT 0 CHECK (drawn_grams >= 0);

-- orders -------------------------------------------------------------------------------------------------------

-- In whose name the order's credits are retired: the account's beneficiary when the order was placed. Null in orders that
-- were allocated or ended before this migration, and in those of a release that does not know the column.
ALTER TABLE orders ADD COLUMN beneficiary text CHECK (length(beneficiary) BETWEEN 1 AND 200);
UPDATE orders SET beneficiary = accounts.beneficiary
FROM accounts
WHERE accounts.organisation_id = orders.organisation_id AND accounts.id = orders.account_id
  AND orders.status IN ('received', 'placed', 'paid');

-- retirements --------------------------------------------------------------------------------------------------

-- Grams that a customer at the gateway's payment page gets if they pay: per checkout, the bundles of its lines and the
-- projects that can supply them. The rows are deleted when the order is allocated, cancelled or declined, or when the
-- hold has expired and no charge is open.
CREATE TABLE supply_holds (
    account_id       text NOT NULL,
    checkout_id      text NOT NULL,
    bundle_id        text NOT NULL,
    project_id       text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    offset_link_id   text NOT NULL,
    -- SHA-256 of the customer's network address: holds are limited per address, and deleted within the hour.
    client_hash      bytea NOT NULL CHECK (length(client_hash) = 32),
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    -- In whole units of the registry: another account may not be able to use the rest of a unit.
    reserved_grams   bigint NOT NULL CHECK (reserved_grams >= quantity_grams),
    -- How often the order was charged before. A later charge that fails ends the hold.
    charges_before   smallint NOT NULL,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, checkout_id, bundle_id, project_id)
);
CREATE INDEX supply_holds_of_project ON supply_holds (mode, project_id);
CREATE INDEX supply_holds_of_bundle ON supply_holds (mode, bundle_id);
