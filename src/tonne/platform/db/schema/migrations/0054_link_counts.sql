-- compatible_from: 34
-- transaction: none

-- checkout -----------------------------------------------------------------------------------------------------

-- How often the pages of an offset link were opened, how many checkouts were begun, and what was paid, by day (UTC).
-- Nothing about the people who did it. Counts are appended to `offset_link_deltas`, so that no page and no payment
-- updates a shared row; a worker moves them to `offset_link_days`. Both are always read together.
CREATE TABLE IF NOT EXISTS offset_link_days (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    offset_link_id   text NOT NULL,
    day              date NOT NULL,
    opened           bigint NOT NULL,
    begun            bigint NOT NULL,
    paid             bigint NOT NULL,
    paid_grams       bigint NOT NULL,
    -- With tax, in the currency of the account. Refunds are not subtracted.
    paid_minor       bigint NOT NULL,
    PRIMARY KEY (account_id, offset_link_id, day),
    FOREIGN KEY (account_id, offset_link_id) REFERENCES offset_links (account_id, id)
);
CREATE INDEX IF NOT EXISTS offset_link_days_of_account ON offset_link_days (account_id, day);

-- No foreign key: it would cost a lookup for every payment.
CREATE TABLE IF NOT EXISTS offset_link_deltas (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    offset_link_id   text NOT NULL,
    id               bigint GENERATED ALWAYS AS IDENTITY,
    day              date NOT NULL,
    opened           bigint NOT NULL DEFAULT 0,
    begun            bigint NOT NULL DEFAULT 0,
    paid             bigint NOT NULL DEFAULT 0,
    paid_grams       bigint NOT NULL DEFAULT 0,
    paid_minor       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, offset_link_id, id)
);

-- A trigger, because servers of the previous release also take payments while the release changes.
CREATE OR REPLACE FUNCTION count_paid_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, paid, paid_grams,
                                    paid_minor)
    VALUES (NEW.organisation_id, NEW.mode, NEW.account_id, NEW.offset_link_id,
            (NEW.status_changed_at AT TIME ZONE 'UTC')::date, 1, coalesce(NEW.quantity_grams, 0),
            coalesce(NEW.total_cost_minor, 0) + coalesce(NEW.tax_minor, 0));
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER paid_links_are_counted AFTER UPDATE ON orders FOR EACH ROW
    WHEN (NEW.offset_link_id IS NOT NULL AND OLD.payment_state = 'unpaid' AND NEW.payment_state <> 'unpaid')
    EXECUTE FUNCTION count_paid_link();

-- Orders that were paid before the trigger existed: the difference between the orders and what is counted. One
-- statement reads both at the same moment, so an order that is paid meanwhile is not counted twice. It locks no order;
-- a second run adds nothing.
-- repeat until it changes no row
INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, paid, paid_grams, paid_minor)
SELECT organisation_id, mode, account_id, offset_link_id, day, sum(paid), sum(paid_grams), sum(paid_minor)
FROM (SELECT orders.organisation_id, orders.mode, orders.account_id, orders.offset_link_id,
             (coalesce(charges.accepted_at, charges.settled_at, orders.created_at) AT TIME ZONE 'UTC')::date AS day,
             1 AS paid, coalesce(orders.quantity_grams, 0) AS paid_grams,
             coalesce(orders.total_cost_minor, 0) + coalesce(orders.tax_minor, 0) AS paid_minor
      FROM orders
      LEFT JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
                       AND charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus
      WHERE orders.offset_link_id IS NOT NULL AND orders.payment_state <> 'unpaid'
      UNION ALL
      SELECT organisation_id, mode, account_id, offset_link_id, day, -paid, -paid_grams, -paid_minor
      FROM offset_link_days
      UNION ALL
      SELECT organisation_id, mode, account_id, offset_link_id, day, -paid, -paid_grams, -paid_minor
      FROM offset_link_deltas) counted
GROUP BY organisation_id, mode, account_id, offset_link_id, day
HAVING sum(paid) <> 0 OR sum(paid_grams) <> 0 OR sum(paid_minor) <> 0;
