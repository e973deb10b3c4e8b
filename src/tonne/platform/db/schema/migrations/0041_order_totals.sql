-- compatible_from: 34
-- transaction: none

-- orders -------------------------------------------------------------------------------------------------------

-- Sums of orders by the month of their creation (UTC). Changes are appended to `order_deltas`, so that placing orders
-- updates no shared row; a worker moves them to `order_totals`. The sum of both is exact at any time.
CREATE TABLE IF NOT EXISTS order_totals (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    month            date NOT NULL CHECK (extract(day FROM month) = 1),
    currency         text NOT NULL,
    status           text NOT NULL,
    orders           bigint NOT NULL,
    grams            bigint NOT NULL,
    -- Without tax, which some orders get only with their invoice.
    cost_minor       bigint NOT NULL,
    tax_minor        bigint NOT NULL,
    refunded_minor   bigint NOT NULL,
    PRIMARY KEY (organisation_id, mode, month, currency, status),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
);

-- Only triggers insert rows. No foreign key: it would cost a lookup for every order.
CREATE TABLE IF NOT EXISTS order_deltas (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    id               bigint GENERATED ALWAYS AS IDENTITY,
    month            date NOT NULL,
    currency         text NOT NULL,
    status           text NOT NULL,
    orders           bigint NOT NULL,
    grams            bigint NOT NULL,
    cost_minor       bigint NOT NULL,
    tax_minor        bigint NOT NULL,
    refunded_minor   bigint NOT NULL,
    PRIMARY KEY (organisation_id, mode, id)
);

-- Triggers, because servers of the previous release also write orders while the release changes.
-- One statement for all rows of a batch: a trigger for each row costs three times as much.
CREATE OR REPLACE FUNCTION count_new_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                              refunded_minor)
    SELECT organisation_id, mode, date_trunc('month', created_at AT TIME ZONE 'UTC')::date, currency, status, 1,
           coalesce(quantity_grams, 0), coalesce(total_cost_minor, 0), coalesce(tax_minor, 0), refunded_minor
    FROM added;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER orders_are_counted AFTER INSERT ON orders
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_orders();

-- For each row: most updates change nothing that is counted, and cost nothing this way.
CREATE OR REPLACE FUNCTION count_changed_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                              refunded_minor)
    VALUES (OLD.organisation_id, OLD.mode, date_trunc('month', OLD.created_at AT TIME ZONE 'UTC')::date, OLD.currency,
            OLD.status, -1, -coalesce(OLD.quantity_grams, 0), -coalesce(OLD.total_cost_minor, 0),
            -coalesce(OLD.tax_minor, 0), -OLD.refunded_minor),
           (NEW.organisation_id, NEW.mode, date_trunc('month', NEW.created_at AT TIME ZONE 'UTC')::date, NEW.currency,
            NEW.status, 1, coalesce(NEW.quantity_grams, 0), coalesce(NEW.total_cost_minor, 0),
            coalesce(NEW.tax_minor, 0), NEW.refunded_minor);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER changed_orders_are_counted AFTER UPDATE ON orders FOR EACH ROW
    WHEN ((OLD.status, OLD.created_at, OLD.quantity_grams, OLD.total_cost_minor, OLD.tax_minor, OLD.refunded_minor)
          IS DISTINCT FROM
          (NEW.status, NEW.created_at, NEW.quantity_grams, NEW.total_cost_minor, NEW.tax_minor, NEW.refunded_minor))
    EXECUTE FUNCTION count_changed_order();

-- Orders from before the triggers: the difference between the orders and what is counted. One statement reads both at
-- the same moment, so orders that change meanwhile are not counted twice. It locks no order; a second run adds nothing.
-- repeat until it changes no row
INSERT INTO order_deltas (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                          refunded_minor)
SELECT organisation_id, mode, month, currency, status, sum(orders), sum(grams), sum(cost_minor), sum(tax_minor),
       sum(refunded_minor)
FROM (SELECT organisation_id, mode, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS month,
             currency::text AS currency, status, count(*) AS orders, coalesce(sum(quantity_grams), 0) AS grams,
             coalesce(sum(total_cost_minor), 0) AS cost_minor, coalesce(sum(tax_minor), 0) AS tax_minor,
             sum(refunded_minor) AS refunded_minor
      FROM orders GROUP BY 1, 2, 3, 4, 5
      UNION ALL
      SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor, -refunded_minor
      FROM order_totals
      UNION ALL
      SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor, -refunded_minor
      FROM order_deltas) counted
GROUP BY organisation_id, mode, month, currency, status
HAVING sum(orders) <> 0 OR sum(grams) <> 0 OR sum(cost_minor) <> 0 OR sum(tax_minor) <> 0 OR sum(refunded_minor) <> 0;

-- The overview of an organisation lists these.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_on_hold ON orders (organisation_id, mode, created_at)
    WHERE hold_reason IS NOT NULL AND status = 'placed';

-- invoices -----------------------------------------------------------------------------------------------------

CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_open ON invoices (organisation_id, mode, due_on)
    WHERE status = 'open';

-- workspace ----------------------------------------------------------------------------------------------------

-- What an organisation plans to buy and to spend in a calendar year. It applies until it is changed.
CREATE TABLE IF NOT EXISTS yearly_targets (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    target_grams     bigint CHECK (target_grams > 0),
    budget_minor     bigint CHECK (budget_minor > 0),
    budget_currency  currency,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, mode),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes,
    CHECK ((budget_minor IS NULL) = (budget_currency IS NULL))
);
