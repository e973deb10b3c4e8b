-- compatible_from: 1
-- A release that does not know `supply_holds` may allocate held grams while both releases run. The order that held them
-- then waits in `paid` for the next lots.

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
