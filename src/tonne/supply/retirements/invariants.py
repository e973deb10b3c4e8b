from collections.abc import Sequence

from asyncpg import Record

from tonne.platform.db.invariant import Invariant, RowInvariant, RowScan
from tonne.platform.values.context import Mode
from tonne.selling.orders.invariants import DOCUMENTS, OrderJson
from tonne.selling.orders.totals.invariants import PARTS
from tonne.supply.certificates.invariants import CERTIFICATE_INVARIANTS
from tonne.supply.stock.lots.check_serials import Stated, disagreements
from tonne_verify.serials.parse import is_made_up, parse
from tonne_verify.serials.units import SerialError, UnitRange


def read_stored(row: Record) -> UnitRange | None:
    """None for a serial that cannot be read; in live mode, also for one that was made up."""
    try:
        units = parse(row["registry"], row["serial"], unit_grams=row["unit_grams"])
    except SerialError:
        return None
    return None if row["mode"] == Mode.LIVE and is_made_up(row["registry"], units) else units


def _shows_others(row: Record, shown: OrderJson) -> str | None:
    """Which statuses of projects the JSON shows instead of those that are true."""
    if row["status"] not in {"retiring", "complete"} or row["next_attempt_at"] is not None:
        return None
    statuses = [each.status for each in shown.projects]
    held = row["statuses"] or ["retired"] * row["projects"]
    if statuses == held:
        return None
    return f"order {row['order_id']} of account {row['account_id']}: {_listed(statuses)} instead of {_listed(held)}"


def _listed(statuses: Sequence[str | None]) -> str:
    return f"{{{','.join(each or 'NULL' for each in statuses)}}}"


LOTS = RowScan(
    """
    SELECT NULL::text AS account_id, NULL::text AS order_id, lot.mode, lot.id, lot.serial, lot.first_number,
           lot.last_number, lot.unit_grams, lot.vintage, lot.country, serial_blocks.namespace, project.registry,
           project.registry_project_id, project.granularity_grams,
           project.details::jsonb ->> 'serial_project' AS serial_project
    FROM lots lot JOIN serial_blocks ON serial_blocks.number = lot.serial_block
    JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
    WHERE $1::timestamptz IS NULL OR lot.created_at >= $1
    """,
    read_stored,
)


def _says_otherwise(row: Record, units: UnitRange | None) -> str | None:
    if units is None:
        return f"lot {row['id']}: {row['serial']} is not a serial of {row['registry']}"
    stored = (row["namespace"], row["first_number"], row["last_number"], row["unit_grams"])
    if (units.namespace, units.first, units.last, units.unit_grams) != stored:
        return f"lot {row['id']}: {row['serial']} is stored as {' '.join(map(str, stored))}"
    facts = Stated(*(row[name] for name in Stated._fields))
    return next((f"lot {row['id']}: {message}" for _, message in disagreements(units, facts)), None)


INVARIANTS = (
    Invariant(
        "no serial number is in two lots",
        "A credit could be sold twice.",
        """
        SELECT format('lots %s and %s', one.id, other.id) AS "where"
        FROM lots one
        JOIN lots other
          ON one.serial_block = other.serial_block AND one.id < other.id
         AND one.first_number <= other.last_number AND one.last_number >= other.first_number
        """,
    ),
    RowInvariant(
        "a lot is what its serial says",
        "The serial of a lot is that of other units, or of another project, country or vintage than the catalogue "
        "says: certificates state the wrong credits.",
        LOTS,
        _says_otherwise,
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
              AND (lot.allocated_grams < lot.quantity_grams OR parcel.status = 'open'
                   OR parcel.status = 'to_retire' AND parcel.instruction_id IS NULL)
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
                      line.account_id, line.position, line.grams, line.project_grams, line.share_grams) AS "where"
        FROM (SELECT account_id, order_id, position, sum(grams) AS grams, sum(cost_minor) AS cost_minor,
                     sum(project_grams) AS project_grams, sum(project_cost_minor) AS project_cost_minor,
                     sum(share_grams) AS share_grams
              FROM (SELECT account_id, order_id, position, quantity_grams AS grams, offset_cost_minor AS cost_minor,
                           NULL::bigint AS project_grams, NULL::bigint AS project_cost_minor,
                           NULL::bigint AS share_grams
                    FROM order_lines
                    UNION ALL
                    SELECT account_id, order_id, line_position, NULL, NULL, quantity_grams, offset_cost_minor, NULL
                    FROM order_projects
                    UNION ALL
                    SELECT account_id, order_id, line_position, NULL, NULL, NULL, NULL, quantity_grams FROM shares
              ) each GROUP BY account_id, order_id, position) line
        JOIN orders ON orders.account_id = line.account_id AND orders.id = line.order_id
        WHERE CASE WHEN orders.status IN ('retiring', 'complete')
              THEN (line.project_grams, line.project_cost_minor, line.share_grams)
                   IS DISTINCT FROM (line.grams, line.cost_minor, line.grams)
              ELSE line.project_grams IS NOT NULL OR line.share_grams IS NOT NULL END
        """,
    ),
    Invariant(
        "a project of an order is retired when its last parcel is",
        "An order says that a project is retired, although parcels of it are left to retire; or the other way round.",
        """
        SELECT format('order %s of account %s, line %s, project %s is %s', project.order_id, project.account_id,
                      project.line_position, project.project_id, project.status) AS "where"
        FROM order_projects project
        LEFT JOIN (SELECT DISTINCT share.account_id, share.order_id, share.line_position, parcel.project_id
                   FROM parcels parcel
                   JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
                   WHERE parcel.status <> 'retired') unretired
               USING (account_id, order_id, line_position, project_id)
        WHERE (project.status = 'allocated') <> (unretired.order_id IS NOT NULL)
          AND NOT EXISTS (
              SELECT FROM lot_cases lot_case WHERE lot_case.account_id = project.account_id
                AND lot_case.order_id = project.order_id AND lot_case.state = 'retiring')
        """,
    ),
    RowInvariant(
        "an order's JSON shows which of its projects are retired",
        "Clients see the wrong status of a project. Orders that are due are left out: a job updates them.",
        DOCUMENTS,
        _shows_others,
        "SELECT account_id, order_id FROM lot_cases WHERE state = 'retiring'",
    ),
    *CERTIFICATE_INVARIANTS,
    Invariant(
        "retired totals match the complete orders",
        "The totals on a Sustainability page differ from the orders: some were counted twice, or not at all.",
        """
        SELECT format('account %s, %s, bundle %s, project %s: %s g counted, %s g of orders', account_id, month,
                      bundle_id, project_id, coalesce(total.grams, 0), coalesce(held.grams, 0)) AS "where"
        FROM retired_totals total
        FULL JOIN (
            SELECT part.account_id, date_trunc('month', certificate.completed_at AT TIME ZONE 'UTC')::date AS month,
                   part.bundle_id, part.project_id, sum(part.grams) AS grams
            FROM part JOIN orders ON orders.account_id = part.account_id AND orders.id = part.order_id
            LEFT JOIN (SELECT account_id, order_id, min(issued_at) AS completed_at,
                              bool_or(state = 'withdrawn') AS is_withdrawn
                       FROM certificates GROUP BY account_id, order_id) certificate
                ON certificate.account_id = part.account_id AND certificate.order_id = part.order_id
            WHERE orders.status = 'complete' AND certificate.is_withdrawn IS NOT TRUE
            GROUP BY 1, 2, 3, 4
        ) held USING (account_id, month, bundle_id, project_id)
        WHERE total.grams IS DISTINCT FROM held.grams
        """,
        PARTS,
    ),
    Invariant(
        "held grams are free",
        "Checkouts and quotes hold more grams of a project than its lots have: a customer may be charged for credits "
        "that do not exist.",
        """
        SELECT format('project %s: %s g held, %s g free', hold.project_id, hold.grams, coalesce(lot.grams, 0))
               AS "where"
        FROM (SELECT mode, project_id, sum(reserved_grams) AS grams FROM supply_holds GROUP BY mode, project_id) hold
        LEFT JOIN (SELECT mode, project_id, sum(quantity_grams - allocated_grams) AS grams FROM lots
                   GROUP BY mode, project_id) lot ON lot.mode = hold.mode AND lot.project_id = hold.project_id
        WHERE hold.grams > coalesce(lot.grams, 0)
        """,
    ),
)
