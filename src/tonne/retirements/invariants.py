from tonne.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no serial number is in two lots",
        "A credit could be sold twice.",
        """
        SELECT format('lots %s and %s', one.id, other.id) AS "where"
        FROM (SELECT id, first_number, last_number, canonical_serial_block(registry, block) AS canonical
              FROM lots JOIN serial_blocks ON serial_blocks.number = lots.serial_block) one
        JOIN (SELECT id, first_number, last_number, canonical_serial_block(registry, block) AS canonical
              FROM lots JOIN serial_blocks ON serial_blocks.number = lots.serial_block) other
          ON one.canonical = other.canonical AND one.id < other.id
         AND one.first_number <= other.last_number AND one.last_number >= other.first_number
        """,
    ),
    Invariant(
        "no lot is over-allocated",
        "More grams were allocated from a lot than it holds.",
        """
        SELECT format('lot %s: %s of %s g', id, allocated_grams, quantity_grams) AS "where"
        FROM lots WHERE allocated_grams < 0 OR allocated_grams > quantity_grams
        """,
    ),
    Invariant(
        "a lot's parcels add up to its allocated grams",
        "The parcels of a lot do not add up to its allocated grams, or overlap: a credit may be sold twice.",
        """
        SELECT format('lot %s: %s g allocated, parcels of %s g%s', lot.id, lot.allocated_grams - lot.invalid_grams,
                      coalesce(parcel.grams, 0),
                      CASE WHEN NOT parcel.in_line THEN ' that overlap or leave a gap' ELSE '' END) AS "where"
        FROM lots lot
        LEFT JOIN (SELECT mode, lot_id, sum(quantity_grams) AS grams, bool_and(start_grams = end_before) AS in_line
                   FROM (SELECT mode, lot_id, start_grams, quantity_grams,
                                lag(start_grams + quantity_grams, 1, 0::bigint)
                                    OVER (PARTITION BY mode, lot_id ORDER BY start_grams) AS end_before
                         FROM parcels) each
                   GROUP BY mode, lot_id) parcel ON parcel.mode = lot.mode AND parcel.lot_id = lot.id
        WHERE lot.allocated_grams - lot.invalid_grams <> coalesce(parcel.grams, 0) OR NOT parcel.in_line
        """,
    ),
    Invariant(
        "every gram of a lot is free, allocated, retired or invalid",
        "The grams of a lot do not add up to its size.",
        """
        SELECT format('lot %s of %s g: %s g free, %s g allocated, %s g retired, %s g invalid', lot.id,
                      lot.quantity_grams, lot.quantity_grams - lot.allocated_grams, parcel.allocated, parcel.retired,
                      lot.invalid_grams + parcel.invalid) AS "where"
        FROM lots lot
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(quantity_grams) FILTER (WHERE status IN ('open', 'to_retire')), 0) AS allocated,
                   coalesce(sum(quantity_grams) FILTER (WHERE status = 'retired'), 0) AS retired,
                   coalesce(sum(quantity_grams) FILTER (WHERE status = 'invalid'), 0) AS invalid
            FROM parcels WHERE parcels.mode = lot.mode AND parcels.lot_id = lot.id
        ) parcel
        WHERE lot.quantity_grams <> (lot.quantity_grams - lot.allocated_grams) + parcel.allocated + parcel.retired
                                    + parcel.invalid + lot.invalid_grams
        """,
    ),
    Invariant(
        "nothing is supplied from invalid lots",
        "A lot was invalidated, but is not used up, or its parcels do not say so.",
        """
        SELECT format('lot %s, parcel %s, %s', lot.id, coalesce(parcel.id, '-'), coalesce(parcel.status, '-'))
               AS "where"
        FROM lots lot LEFT JOIN parcels parcel ON parcel.mode = lot.mode AND parcel.lot_id = lot.id
        WHERE (lot.invalidated_at IS NULL) <> (parcel.invalidated_at IS NULL) AND parcel.id IS NOT NULL
           OR lot.invalidated_at IS NOT NULL
              AND (lot.allocated_grams < lot.quantity_grams OR parcel.status IN ('open', 'to_retire'))
        """,
    ),
    Invariant(
        "orders that hold credits of an invalid lot are dealt with",
        "An order holds credits of an invalid lot, but nobody has to decide about it; or it was supplied from another "
        "lot, but still holds them.",
        """
        SELECT format('lot %s, order %s of account %s: %s', coalesce(held.lot_id, lot_case.lot_id),
                      coalesce(held.order_id, lot_case.order_id), coalesce(held.account_id, lot_case.account_id),
                      coalesce(lot_case.state, 'no case')) AS "where"
        FROM (SELECT parcel.mode, parcel.lot_id, share.account_id, share.order_id, sum(share.quantity_grams) AS grams
              FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
              WHERE parcel.invalidated_at IS NOT NULL
              GROUP BY parcel.mode, parcel.lot_id, share.account_id, share.order_id) held
        FULL JOIN lot_cases lot_case USING (mode, lot_id, account_id, order_id)
        WHERE (held.grams IS NOT NULL) IS DISTINCT FROM (lot_case.state IN ('undecided', 'resupply', 'withdrawn'))
           OR held.grams <> lot_case.quantity_grams
        """,
    ),
    Invariant(
        "every gram of a parcel belongs to one order line",
        "The shares of a parcel do not add up to its allocated grams.",
        """
        SELECT format('parcel %s: %s g allocated, shares of %s g', parcel.id, parcel.allocated_grams,
                      coalesce(sum(share.quantity_grams), 0)) AS "where"
        FROM parcels parcel LEFT JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
        GROUP BY parcel.mode, parcel.id
        HAVING parcel.allocated_grams <> coalesce(sum(share.quantity_grams), 0)
        """,
    ),
    Invariant(
        "parcels consist of whole units",
        "A parcel does not consist of whole units of its registry.",
        """
        SELECT format('parcel %s: %s g from %s g, units of %s g', parcel.id, parcel.quantity_grams, parcel.start_grams,
                      project.granularity_grams) AS "where"
        FROM parcels parcel JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
        WHERE parcel.quantity_grams % project.granularity_grams <> 0
           OR parcel.start_grams % project.granularity_grams <> 0
        """,
    ),
    Invariant(
        "an order's projects and shares add up to its lines",
        "The grams or costs of an order's projects, or its shares, differ from its lines.",
        """
        SELECT format('order %s of account %s, line %s: %s g bought, %s g of projects, %s g of shares', line.order_id,
                      line.account_id, line.position, line.quantity_grams, project.grams, share.grams) AS "where"
        FROM order_lines line
        JOIN orders ON orders.account_id = line.account_id AND orders.id = line.order_id
        CROSS JOIN LATERAL (SELECT sum(quantity_grams) AS grams, sum(offset_cost_minor) AS cost_minor
                            FROM order_projects each WHERE each.account_id = line.account_id
                              AND each.order_id = line.order_id AND each.line_position = line.position) project
        CROSS JOIN LATERAL (SELECT sum(quantity_grams) AS grams FROM shares each
                            WHERE each.account_id = line.account_id AND each.order_id = line.order_id
                              AND each.line_position = line.position) share
        WHERE CASE WHEN orders.status IN ('retiring', 'complete')
              THEN (project.grams, project.cost_minor, share.grams)
                   IS DISTINCT FROM (line.quantity_grams::numeric, line.offset_cost_minor::numeric,
                                     line.quantity_grams::numeric)
              ELSE project.grams IS NOT NULL OR share.grams IS NOT NULL END
        """,
    ),
    Invariant(
        "an order's JSON shows which of its projects are retired",
        "Clients see the wrong status of a project. Orders that are due are left out: a job updates them.",
        """
        SELECT format('order %s of account %s: %s instead of %s', orders.id, orders.account_id, shown.statuses,
                      held.statuses) AS "where"
        FROM orders
        CROSS JOIN LATERAL (
            SELECT array_agg(item ->> 'status' ORDER BY n) AS statuses
            FROM json_array_elements(convert_from(orders.wire_document, 'UTF8')::json -> 'projects')
                 WITH ORDINALITY AS each (item, n)
        ) shown
        CROSS JOIN LATERAL (
            SELECT array_agg(CASE WHEN EXISTS (
                       SELECT FROM shares share
                       JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                       WHERE share.account_id = project.account_id AND share.order_id = project.order_id
                         AND share.line_position = project.line_position AND parcel.project_id = project.project_id
                         AND parcel.status <> 'retired') THEN 'allocated' ELSE 'retired' END
                   ORDER BY project.position) AS statuses
            FROM order_projects project
            WHERE project.account_id = orders.account_id AND project.order_id = orders.id
        ) held
        WHERE orders.status IN ('retiring', 'complete') AND orders.next_attempt_at IS NULL
          AND shown.statuses IS DISTINCT FROM held.statuses
          AND NOT EXISTS (
              SELECT FROM lot_cases lot_case WHERE lot_case.account_id = orders.account_id
                AND lot_case.order_id = orders.id AND lot_case.state = 'retiring')
        """,
    ),
    Invariant(
        "every complete order is fully retired and has one current certificate",
        "An order is complete with an unretired parcel or without a certificate, or has a certificate too early.",
        """
        SELECT format('order %s of account %s, %s', orders.id, orders.account_id, orders.status) AS "where"
        FROM orders
        LEFT JOIN certificates certificate
               ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
              AND certificate.state <> 'replaced'
        WHERE (orders.status = 'complete') <> (certificate.number IS NOT NULL)
           OR orders.status = 'complete' AND EXISTS (
                  SELECT FROM shares share
                  JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                  WHERE share.account_id = orders.account_id AND share.order_id = orders.id
                    AND parcel.status <> 'retired')
              AND NOT EXISTS (
                  SELECT FROM lot_cases lot_case WHERE lot_case.account_id = orders.account_id
                    AND lot_case.order_id = orders.id AND lot_case.state = 'retiring')
        """,
    ),
    Invariant(
        "replaced certificates lead to the current one",
        "A certificate was replaced by one of another order, or the two do not name each other.",
        """
        SELECT format('certificate %s of order %s', coalesce(old.number, new.number),
                      coalesce(old.order_id, new.order_id)) AS "where"
        FROM certificates old
        FULL JOIN certificates new ON new.number = old.replaced_by
        WHERE old.replaced_by IS NOT NULL
              AND (old.account_id, old.order_id, old.number) IS DISTINCT FROM
                  (new.account_id, new.order_id, new.replaces)
           OR new.replaces IS NOT NULL AND old.number IS DISTINCT FROM new.replaces
        """,
    ),
    Invariant(
        "a certificate's lines match its order's retirements",
        "A certificate states other credits, quantities or dates than its order's shares of retired parcels.",
        """
        SELECT format('certificate %s of order %s: %s', certificate.number, certificate.order_id, stated.lines)
               AS "where"
        FROM certificates certificate
        CROSS JOIN LATERAL (
            SELECT array_agg(line ORDER BY line) AS lines
            FROM (SELECT concat_ws(' | ', ((line ->> 'quantity')::numeric * 1000000)::bigint, line ->> 'project_id',
                                   line ->> 'vintage', regexp_replace(line ->> 'serial_range', ' [(]k?g .*', ''),
                                   line ->> 'retired_on', line ->> 'retirement_url') COLLATE "C" AS line
                  FROM json_array_elements(convert_from(certificate.record, 'UTF8')::json -> 'lines') line) each
        ) stated
        CROSS JOIN LATERAL (
            SELECT array_agg(line ORDER BY line) AS lines
            FROM (SELECT concat_ws(' | ', share.quantity_grams, project.registry_project_id, lot.vintage,
                                   concat(coalesce(lot.block_spelling, block.block), ' ', serial.first,
                                          '–' || nullif(serial.last, serial.first)),
                                   parcel.retired_on, parcel.retirement_url) COLLATE "C" AS line
                  FROM shares share
                  JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                  JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
                  JOIN serial_blocks block ON block.number = lot.serial_block
                  JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
                  CROSS JOIN LATERAL (
                      SELECT lot.first_number + parcel.start_grams / 1000000 AS first,
                             lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last
                  ) serial
                  WHERE share.account_id = certificate.account_id AND share.order_id = certificate.order_id) each
        ) held
        WHERE certificate.state = 'valid' AND stated.lines IS DISTINCT FROM held.lines
        """,
    ),
    Invariant(
        "retired totals match the complete orders",
        "The totals on a Sustainability page differ from the orders: some were counted twice, or not at all.",
        """
        SELECT format('account %s, %s, bundle %s, project %s: %s g counted, %s g of orders', account_id, month,
                      bundle_id, project_id, coalesce(total.grams, 0), coalesce(held.grams, 0)) AS "where"
        FROM retired_totals total
        FULL JOIN (
            SELECT orders.account_id, date_trunc('month', certificate.completed_at AT TIME ZONE 'UTC')::date AS month,
                   line.bundle_id, project.project_id, sum(project.quantity_grams) AS grams
            FROM orders
            LEFT JOIN (SELECT account_id, order_id, min(issued_at) AS completed_at,
                              bool_or(state = 'withdrawn') AS is_withdrawn
                       FROM certificates GROUP BY account_id, order_id) certificate
                ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
            JOIN order_projects project ON project.account_id = orders.account_id AND project.order_id = orders.id
            JOIN order_lines line ON line.account_id = orders.account_id AND line.order_id = orders.id
                AND line.position = project.line_position
            WHERE orders.status = 'complete' AND certificate.is_withdrawn IS NOT TRUE
            GROUP BY 1, 2, 3, 4
        ) held USING (account_id, month, bundle_id, project_id)
        WHERE total.grams IS DISTINCT FROM held.grams
        """,
    ),
    Invariant(
        "held grams are free",
        "Checkouts hold more grams of a project than its lots have: a customer may be charged for credits that do not "
        "exist.",
        """
        SELECT format('project %s: %s g held, %s g free', hold.project_id, hold.grams, coalesce(lot.grams, 0))
               AS "where"
        FROM (SELECT mode, project_id, sum(reserved_grams) AS grams FROM supply_holds GROUP BY mode, project_id) hold
        LEFT JOIN (SELECT mode, project_id, sum(quantity_grams - allocated_grams) AS grams FROM lots
                   GROUP BY mode, project_id) lot ON lot.mode = hold.mode AND lot.project_id = hold.project_id
        WHERE hold.grams > coalesce(lot.grams, 0)
        """,
    ),
    Invariant(
        "holds that have ended are released",
        "Grams are still held an hour after the hold expired, or for an order that has them already: is a worker "
        "running?",
        """
        SELECT format('checkout %s of account %s, %s g of project %s, until %s', hold.checkout_id, hold.account_id,
                      hold.reserved_grams, hold.project_id, hold.expires_at) AS "where"
        FROM supply_holds hold
        LEFT JOIN checkouts ON checkouts.account_id = hold.account_id AND checkouts.id = hold.checkout_id
        LEFT JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
        WHERE orders.status IN ('retiring', 'complete')
           OR hold.expires_at < now() - interval '1 hour' AND orders.status IS DISTINCT FROM 'paid'
              AND NOT EXISTS (SELECT FROM charges WHERE charges.account_id = orders.account_id
                              AND charges.order_id = orders.id AND charges.status = 'pending')
        """,
    ),
)
