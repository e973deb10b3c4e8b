-- compatible_from: 34
-- transaction: none

-- estimates ----------------------------------------------------------------------------------------------------

-- How many estimates an account created on each day (UTC). A trigger appends to `estimate_deltas`, and a worker moves
-- the rows to `estimate_days`. The sum of both is exact at any time.
CREATE TABLE IF NOT EXISTS estimate_days (
    account_id  text NOT NULL,
    day         date NOT NULL,
    estimates   bigint NOT NULL,
    PRIMARY KEY (account_id, day)
);
CREATE TABLE IF NOT EXISTS estimate_deltas (
    account_id  text NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    day         date NOT NULL,
    estimates   bigint NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE OR REPLACE FUNCTION count_new_estimates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO estimate_deltas (account_id, day, estimates)
    SELECT account_id, (created_at AT TIME ZONE 'UTC')::date, count(*) FROM added GROUP BY 1, 2;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER estimates_are_counted AFTER INSERT ON estimates
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_estimates();
-- Estimates from before the trigger, as in 0041_order_totals.sql.
-- repeat until it changes no row
INSERT INTO estimate_deltas (account_id, day, estimates)
SELECT account_id, day, sum(estimates)
FROM (SELECT account_id, (created_at AT TIME ZONE 'UTC')::date AS day,
       count(*) AS estimates FROM estimates GROUP BY 1, 2
      UNION ALL SELECT account_id, day, -estimates FROM estimate_days
      UNION ALL SELECT account_id, day, -estimates FROM estimate_deltas) counted
GROUP BY account_id, day HAVING sum(estimates) <> 0;

-- orders -------------------------------------------------------------------------------------------------------

-- Null in rows that were written before these columns.
ALTER TABLE order_deltas
    ADD COLUMN IF NOT EXISTS account_id text,
    ADD COLUMN IF NOT EXISTS order_id text,
    ADD COLUMN IF NOT EXISTS day date,
    ADD COLUMN IF NOT EXISTS offset_cost_minor bigint;

-- Sums of an account's orders by the day of their creation (UTC). Rows of `order_deltas` are added when they are
-- deleted, whichever release deletes them.
CREATE TABLE IF NOT EXISTS account_totals (
    account_id         text NOT NULL,
    day                date NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    orders             bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    cost_minor         bigint NOT NULL,
    tax_minor          bigint NOT NULL,
    refunded_minor     bigint NOT NULL,
    PRIMARY KEY (account_id, day, currency, status)
);
-- The same by bundle and project, for orders that are priced and not cancelled or failed. `project_id` is empty until
-- supply is allocated. `parts` counts an order once for each bundle and project of it, `bundle_orders` once for each
-- bundle, `project_orders` once for each project.
CREATE TABLE IF NOT EXISTS bundle_totals (
    account_id         text NOT NULL,
    day                date NOT NULL,
    bundle_id          text NOT NULL,
    project_id         text NOT NULL,
    currency           text NOT NULL,
    parts              bigint NOT NULL,
    bundle_orders      bigint NOT NULL,
    project_orders     bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    PRIMARY KEY (account_id, day, bundle_id, project_id, currency)
);
-- Keys of metadata that an account has named. Orders up to `scanned_at` and `scanned_id` are counted.
CREATE TABLE IF NOT EXISTS metadata_keys (
    account_id       text NOT NULL,
    key              text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    created_at       timestamptz NOT NULL,
    scanned_at       timestamptz NOT NULL DEFAULT '1970-01-01T00:00:00Z',
    scanned_id       text NOT NULL DEFAULT '',
    is_complete      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX CONCURRENTLY IF NOT EXISTS metadata_keys_to_scan ON metadata_keys (created_at) WHERE NOT is_complete;
CREATE TABLE IF NOT EXISTS metadata_totals (
    account_id         text NOT NULL,
    key                text NOT NULL,
    day                date NOT NULL,
    value              text NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    orders             bigint NOT NULL,
    grams              bigint NOT NULL,
    offset_cost_minor  bigint NOT NULL,
    cost_minor         bigint NOT NULL,
    tax_minor          bigint NOT NULL,
    refunded_minor     bigint NOT NULL,
    PRIMARY KEY (account_id, key, day, value, currency, status)
);

-- The value of a key for analytics: a text, a number or a boolean as text. Null for anything else.
CREATE OR REPLACE FUNCTION metadata_value(metadata text, key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof(found) IN ('string', 'number', 'boolean') THEN left(found #>> '{}', 200) END
    FROM (SELECT metadata::json -> key AS found) AS member
$$;

CREATE OR REPLACE FUNCTION count_new_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, account_id, order_id, day, month, currency, status, orders, grams,
                              offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    SELECT organisation_id, mode, account_id, id, (created_at AT TIME ZONE 'UTC')::date,
           date_trunc('month', created_at AT TIME ZONE 'UTC')::date, currency, status, 1, coalesce(quantity_grams, 0),
           coalesce(offset_cost_minor, 0), coalesce(total_cost_minor, 0), coalesce(tax_minor, 0), refunded_minor
    FROM added;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION count_changed_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO order_deltas (organisation_id, mode, account_id, order_id, day, month, currency, status, orders, grams,
                              offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    VALUES (OLD.organisation_id, OLD.mode, OLD.account_id, OLD.id, (OLD.created_at AT TIME ZONE 'UTC')::date,
            date_trunc('month', OLD.created_at AT TIME ZONE 'UTC')::date, OLD.currency, OLD.status, -1,
            -coalesce(OLD.quantity_grams, 0), -coalesce(OLD.offset_cost_minor, 0),
            -coalesce(OLD.total_cost_minor, 0), -coalesce(OLD.tax_minor, 0), -OLD.refunded_minor),
           (NEW.organisation_id, NEW.mode, NEW.account_id, NEW.id, (NEW.created_at AT TIME ZONE 'UTC')::date,
            date_trunc('month', NEW.created_at AT TIME ZONE 'UTC')::date, NEW.currency, NEW.status, 1,
            coalesce(NEW.quantity_grams, 0), coalesce(NEW.offset_cost_minor, 0),
            coalesce(NEW.total_cost_minor, 0), coalesce(NEW.tax_minor, 0), NEW.refunded_minor);
    RETURN NULL;
END
$$;

-- A delta that is deleted is added to the totals in the same statement. Sorted to prevent deadlocks between workers.
CREATE OR REPLACE FUNCTION count_folded_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Naming a key and counting its earlier orders take this lock exclusively. Without it, a change that is folded
    -- meanwhile could be counted twice or not at all.
    PERFORM pg_advisory_xact_lock_shared(7405610257);
    INSERT INTO account_totals AS total (account_id, day, currency, status, orders, grams, offset_cost_minor,
                                         cost_minor, tax_minor, refunded_minor)
    SELECT account_id, day, currency, status, sum(orders), sum(grams), sum(offset_cost_minor),
           sum(cost_minor), sum(tax_minor), sum(refunded_minor)
    FROM gone WHERE order_id IS NOT NULL
    GROUP BY account_id, day, currency, status ORDER BY account_id, day, currency, status
    ON CONFLICT (account_id, day, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
        cost_minor = total.cost_minor + excluded.cost_minor,
        tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor;

    INSERT INTO bundle_totals AS total (account_id, day, bundle_id, project_id, currency, parts,
                                        bundle_orders, project_orders, grams, offset_cost_minor)
    WITH net AS MATERIALIZED (
        SELECT account_id, order_id, day, currency,
               coalesce(sum(orders) FILTER (WHERE status IN ('placed', 'paid')), 0) AS waiting,
               coalesce(sum(orders) FILTER (WHERE status IN ('retiring', 'complete')), 0) AS allocated
        FROM gone WHERE order_id IS NOT NULL GROUP BY account_id, order_id, day, currency
    ), fact AS (
        SELECT net.account_id, net.day, line.bundle_id, '' AS project_id, net.currency, net.waiting AS parts,
               net.waiting AS bundle_orders,
               CASE WHEN line.position = 1 THEN net.waiting ELSE 0 END AS project_orders,
               net.waiting * line.quantity_grams AS grams, net.waiting * line.offset_cost_minor AS offset_cost_minor
        FROM net
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
        WHERE net.waiting <> 0
        UNION ALL
        SELECT net.account_id, net.day, line.bundle_id, project.project_id, net.currency, net.allocated,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.line_position)
                    THEN net.allocated ELSE 0 END,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.project_id)
                    THEN net.allocated ELSE 0 END,
               net.allocated * project.quantity_grams, net.allocated * project.offset_cost_minor
        FROM net
        JOIN order_projects project ON project.account_id = net.account_id AND project.order_id = net.order_id
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
         AND line.position = project.line_position
        WHERE net.allocated <> 0
    )
    SELECT account_id, day, bundle_id, project_id, currency, sum(parts), sum(bundle_orders), sum(project_orders),
           sum(grams),
           sum(offset_cost_minor)
    FROM fact GROUP BY account_id, day, bundle_id, project_id, currency
    ORDER BY account_id, day, bundle_id, project_id, currency
    ON CONFLICT (account_id, day, bundle_id, project_id, currency) DO UPDATE
    SET parts = total.parts + excluded.parts, bundle_orders = total.bundle_orders + excluded.bundle_orders,
        project_orders = total.project_orders + excluded.project_orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor;

    INSERT INTO metadata_totals AS total (account_id, key, day, value, currency, status, orders, grams,
                                          offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    SELECT gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status,
           sum(gone.orders), sum(gone.grams), sum(gone.offset_cost_minor),
           sum(gone.cost_minor), sum(gone.tax_minor), sum(gone.refunded_minor)
    FROM gone JOIN metadata_keys named ON named.account_id = gone.account_id
    JOIN orders ON orders.account_id = gone.account_id AND orders.id = gone.order_id
    CROSS JOIN LATERAL (SELECT metadata_value(orders.metadata, named.key) AS value) found
    WHERE found.value IS NOT NULL
      AND (named.is_complete OR (orders.created_at, orders.id) <= (named.scanned_at, named.scanned_id))
    GROUP BY gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status
    ORDER BY gone.account_id, named.key, gone.day, found.value, gone.currency, gone.status
    ON CONFLICT (account_id, key, day, value, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders,
        grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
        cost_minor = total.cost_minor + excluded.cost_minor,
        tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER folded_orders_are_counted AFTER DELETE ON order_deltas
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_folded_orders();

-- Orders from before: the difference between the orders and what is counted, as in 0041_order_totals.sql.
-- repeat until it changes no row
INSERT INTO account_totals AS total (account_id, day, currency, status, orders, grams, offset_cost_minor, cost_minor,
                                     tax_minor, refunded_minor)
SELECT account_id, day, currency, status, sum(orders), sum(grams), sum(offset_cost_minor),
       sum(cost_minor), sum(tax_minor), sum(refunded_minor)
FROM (SELECT account_id, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency, status, 1 AS orders,
             coalesce(quantity_grams, 0) AS grams, coalesce(offset_cost_minor, 0) AS offset_cost_minor,
             coalesce(total_cost_minor, 0) AS cost_minor, coalesce(tax_minor, 0) AS tax_minor, refunded_minor
      FROM orders
      UNION ALL
      SELECT account_id, day, currency, status, -orders, -grams, -offset_cost_minor, -cost_minor, -tax_minor,
             -refunded_minor
      FROM account_totals
      UNION ALL
      SELECT account_id, day, currency, status, -orders, -grams, -offset_cost_minor, -cost_minor, -tax_minor,
             -refunded_minor
      FROM order_deltas WHERE order_id IS NOT NULL) counted
GROUP BY account_id, day, currency, status
HAVING sum(orders) <> 0 OR sum(grams) <> 0 OR sum(offset_cost_minor) <> 0 OR sum(cost_minor) <> 0 OR sum(tax_minor) <> 0
    OR sum(refunded_minor) <> 0
ON CONFLICT (account_id, day, currency, status) DO UPDATE
SET orders = total.orders + excluded.orders,
    grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
    cost_minor = total.cost_minor + excluded.cost_minor,
    tax_minor = total.tax_minor + excluded.tax_minor,
    refunded_minor = total.refunded_minor + excluded.refunded_minor;

-- repeat until it changes no row
INSERT INTO bundle_totals AS total (account_id, day, bundle_id, project_id, currency, parts, bundle_orders,
                                    project_orders, grams, offset_cost_minor)
WITH net AS MATERIALIZED (
        SELECT account_id, order_id, day, currency, sum(waiting) AS waiting, sum(allocated) AS allocated
        FROM (SELECT account_id, id AS order_id, (created_at AT TIME ZONE 'UTC')::date AS day,
                     currency::text AS currency, CASE WHEN status IN ('placed', 'paid') THEN 1 ELSE 0 END AS waiting,
                     CASE WHEN status IN ('retiring', 'complete') THEN 1 ELSE 0 END AS allocated
              FROM orders
              UNION ALL
              SELECT account_id, order_id, day, currency,
                     CASE WHEN status IN ('placed', 'paid') THEN -orders ELSE 0 END,
                     CASE WHEN status IN ('retiring', 'complete') THEN -orders ELSE 0 END
              FROM order_deltas WHERE order_id IS NOT NULL) each
        GROUP BY account_id, order_id, day, currency
), fact AS (
        SELECT net.account_id, net.day, line.bundle_id, '' AS project_id, net.currency, net.waiting AS parts,
               net.waiting AS bundle_orders,
               CASE WHEN line.position = 1 THEN net.waiting ELSE 0 END AS project_orders,
               net.waiting * line.quantity_grams AS grams, net.waiting * line.offset_cost_minor AS offset_cost_minor
        FROM net
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
        WHERE net.waiting <> 0
        UNION ALL
        SELECT net.account_id, net.day, line.bundle_id, project.project_id, net.currency, net.allocated,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.line_position)
                    THEN net.allocated ELSE 0 END,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.project_id)
                    THEN net.allocated ELSE 0 END,
               net.allocated * project.quantity_grams, net.allocated * project.offset_cost_minor
        FROM net
        JOIN order_projects project ON project.account_id = net.account_id AND project.order_id = net.order_id
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
         AND line.position = project.line_position
        WHERE net.allocated <> 0
        UNION ALL
        SELECT account_id, day, bundle_id, project_id, currency, -parts, -bundle_orders, -project_orders, -grams,
               -offset_cost_minor
        FROM bundle_totals
)
SELECT account_id, day, bundle_id, project_id, currency, sum(parts), sum(bundle_orders), sum(project_orders),
       sum(grams),
       sum(offset_cost_minor)
FROM fact GROUP BY account_id, day, bundle_id, project_id, currency
HAVING sum(parts) <> 0 OR sum(bundle_orders) <> 0 OR sum(project_orders) <> 0 OR sum(grams) <> 0
    OR sum(offset_cost_minor) <> 0
ON CONFLICT (account_id, day, bundle_id, project_id, currency) DO UPDATE
SET parts = total.parts + excluded.parts, bundle_orders = total.bundle_orders + excluded.bundle_orders,
    project_orders = total.project_orders + excluded.project_orders,
    grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor;
