"""Finished orders, quickly: copies of one that is really complete, with everything it left behind but its events."""

import asyncio
from dataclasses import dataclass

from bench.bulk import without_flushing, without_indexes
from bench.fill import COPY_LINES, CREATE_COPIES, PLAN_COPIES
from bench.stage import Stage
from bench.tenants import MODE
from tonne.base.clock import to_wire
from tonne.base.mass import GRAMS_PER_TONNE
from tonne.db.pool import Connection

TABLES = (
    "orders",
    "order_lines",
    "charges",
    "simulated_charges",
    "order_projects",
    "parcels",
    "shares",
    "certificates",
)

COUNT_FINISHED = "SELECT count(*) FROM orders WHERE status = 'complete'"


async def count_finished(stage: Stage) -> int:
    async with stage.connection() as connection:
        finished: int = await connection.fetchval(COUNT_FINISHED)
    return finished


@dataclass(frozen=True, slots=True)
class Template:
    account_id: str
    order_id: str
    quantity_grams: int
    project_id: str
    certificate_number: str
    # Its key, creation time and estimate, as they stand in its document.
    own_texts: tuple[str, str, str]


NEWEST_FINISHED = """
SELECT orders.account_id, orders.id, orders.quantity_grams, orders.idempotency_key, orders.created_at,
       orders.estimate_id, certificate.number,
       (SELECT min(project_id) FROM order_projects project
        WHERE project.account_id = orders.account_id AND project.order_id = orders.id) AS project_id
FROM orders JOIN certificates certificate
  ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
WHERE orders.status = 'complete' ORDER BY orders.id DESC LIMIT 1
"""


async def _read_template(connection: Connection) -> Template:
    """The one with the highest id: those of copies begin with zeros, so that the worker has completed this one."""
    row = await connection.fetchrow(NEWEST_FINISHED)
    if row is None:
        raise LookupError("there is no finished order to copy yet")
    return Template(
        account_id=row["account_id"],
        order_id=row["id"],
        quantity_grams=row["quantity_grams"],
        project_id=row["project_id"],
        certificate_number=row["number"],
        own_texts=(row["idempotency_key"], to_wire(row["created_at"]), row["estimate_id"]),
    )


async def fill_finished(stage: Stage, count: int) -> None:
    """Add `count` finished orders, to the tenants in turn. The tables are left as a database at rest leaves them."""
    async with stage.connection() as one, stage.connection() as two, without_flushing(one):
        for connection in (one, two):
            # Foreign keys are triggers, and these rows are right by construction.
            await connection.execute("SET session_replication_role = replica")
        template = await _read_template(one)
        first = 1 + await one.fetchval(COUNT_COPIES)
        await one.execute(CREATE_COPIES)
        await one.execute(
            PLAN_COPIES,
            [tenant.scope.organisation_id for tenant in stage.tenants],
            [tenant.scope.account_id for tenant in stage.tenants],
            [tenant.estimate_id for tenant in stage.tenants],
            first,
            first + count - 1,
            0,
            MODE,
        )
        await one.execute("ANALYZE bench_copies")
        lot_id = await _make_lot(one, template, first, count)
        async with without_indexes(one, two, TABLES):
            await asyncio.gather(_copy_orders(one, template), _copy_the_rest(two, template, lot_id, first))
        await one.execute("DROP TABLE bench_copies")
        await asyncio.gather(
            one.execute("VACUUM ANALYZE orders, order_lines, certificates"),
            two.execute("VACUUM ANALYZE charges, simulated_charges, order_projects, parcels, shares, lots"),
        )


COUNT_COPIES = "SELECT count(*) FROM orders WHERE id < 'ord_00001'"
# As large as these copies need: nothing of it is left for orders that come later.
MAKE_LOT = """
WITH block AS (
    INSERT INTO serial_blocks (registry, block)
    SELECT registry, 'TEST-BENCH-' || $3::bigint FROM projects WHERE mode = $1 AND id = $2
    RETURNING number
)
INSERT INTO lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country, status,
                  allocated_grams, created_at)
SELECT $1, 'lot_' || lpad(($3::bigint)::text, 26, '0'), $2, 2020, number, 1, $4::bigint, 'Nowhere', 'held',
       $4::bigint * 1000000, now()
FROM block RETURNING id
"""


async def _make_lot(connection: Connection, template: Template, first: int, count: int) -> str:
    tonnes = -(-count * template.quantity_grams // GRAMS_PER_TONNE)
    lot_id: str = await connection.fetchval(MAKE_LOT, MODE, template.project_id, first, tonnes)
    return lot_id


COPY_ORDERS = """
INSERT INTO orders (account_id, id, organisation_id, mode, idempotency_key, request_digest, type, status, currency,
                    payment_method, requested_quantity_grams, requested_value_minor, bundle_selection, quantity_grams,
                    offset_cost_minor, total_cost_minor, commission_minor, fee_rate, exchange_rate,
                    exchange_rate_source, exchange_rate_as_of, estimate_id, offset_link_id, email, metadata, created_at,
                    status_changed_at, next_attempt_at, wire_document)
SELECT copy.account_id, copy.order_id, copy.organisation_id, mode, copy.key, sha256(int8send(copy.number)), type,
       status, currency, payment_method, requested_quantity_grams, requested_value_minor, bundle_selection,
       quantity_grams, offset_cost_minor, total_cost_minor, commission_minor, fee_rate, exchange_rate,
       exchange_rate_source, exchange_rate_as_of, copy.estimate_id, offset_link_id, email, metadata, copy.created_at,
       copy.created_at, NULL,
       convert_to(replace(replace(replace(replace(convert_from(wire_document, 'UTF8'), $2, copy.order_id),
                                          $3, copy.key), $4, copy.created_at_text), $5, copy.estimate_id), 'UTF8')
FROM bench_copies copy CROSS JOIN orders template
WHERE template.account_id = $1 AND template.id = $2
"""


async def _copy_orders(connection: Connection, template: Template) -> None:
    await connection.execute(COPY_ORDERS, template.account_id, template.order_id, *template.own_texts)
    await connection.execute(COPY_LINES, template.account_id, template.order_id)


COPY_CHARGES = """
INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, customer, method, amount_minor,
                     currency, status, outcome, reference, created_at, settled_at)
SELECT copy.account_id, 'chg_' || lpad(copy.number::text, 26, '0'), copy.order_id, copy.organisation_id, mode, attempt,
       gateway, customer, method, amount_minor, currency, status, outcome,
       'sim_chg_' || lpad(copy.number::text, 26, '0'), copy.created_at, copy.created_at
FROM bench_copies copy CROSS JOIN charges template
WHERE template.account_id = $1 AND template.order_id = $2 AND template.status = 'captured'
"""
COPY_SIMULATED_CHARGES = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, reference, created_at)
SELECT copy.id, copy.customer, copy.method, copy.amount_minor, copy.currency, 'captured', copy.reference,
       copy.created_at
FROM charges copy WHERE copy.order_id IN (SELECT order_id FROM bench_copies)
"""
COPY_PROJECTS = """
INSERT INTO order_projects (account_id, order_id, position, line_position, project_id, project_name, project_type,
                            project_slug, quantity_grams, unit_price_minor, offset_cost_minor)
SELECT copy.account_id, copy.order_id, position, line_position, project_id, project_name, project_type, project_slug,
       quantity_grams, unit_price_minor, offset_cost_minor
FROM bench_copies copy CROSS JOIN order_projects template
WHERE template.account_id = $1 AND template.order_id = $2
"""
# Orders lie in the lot one after the other, cut into units of a tonne: all units are full, but for the last.
COPY_PARCELS = """
INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id,
                     beneficiary, in_service_name, status, opened_at, retired_on, retired_at)
SELECT lot.mode, 'par_' || lpad($2::bigint || lpad(unit::text, 10, '0'), 26, '0'), lot.id, lot.project_id,
       unit * 1000000, 1000000, least(1000000, $3::bigint * (SELECT count(*) FROM bench_copies) - unit * 1000000), NULL,
       'Tonne', true, 'retired', now(), current_date, now()
FROM lots lot CROSS JOIN generate_series(0, lot.quantity_grams / 1000000 - 1) AS unit
WHERE lot.mode = 'test' AND lot.id = $1
"""
COPY_SHARES = """
INSERT INTO shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary, quantity_grams)
SELECT piece.account_id, piece.order_id, piece.position, 'test',
       'par_' || lpad($3::bigint || lpad(unit::text, 10, '0'), 26, '0'), piece.organisation_id, 'Bench',
       least(piece.start + piece.quantity_grams, (unit + 1) * 1000000) - greatest(piece.start, unit * 1000000)
FROM (SELECT copy.account_id, copy.order_id, copy.organisation_id, line.position, line.quantity_grams,
             (copy.number - $3::bigint) * $4::bigint + line.before_grams AS start
      FROM bench_copies copy
      CROSS JOIN (SELECT position, quantity_grams,
                         sum(quantity_grams) OVER (ORDER BY position)::bigint - quantity_grams AS before_grams
                  FROM order_lines WHERE account_id = $1 AND order_id = $2) line) piece
CROSS JOIN LATERAL generate_series(piece.start / 1000000, (piece.start + piece.quantity_grams - 1) / 1000000) AS unit
"""
COPY_CERTIFICATES = """
INSERT INTO certificates (account_id, order_id, organisation_id, mode, number, issued_at, record)
SELECT copy.account_id, copy.order_id, copy.organisation_id, mode, copy.number, copy.created_at,
       convert_to(replace(replace(convert_from(record, 'UTF8'), $2, copy.order_id), $3, copy.number), 'UTF8')
FROM (SELECT account_id, order_id, organisation_id, created_at,
             'TEST-' || upper(left(md5('certificate ' || number), 19)) AS number
      FROM bench_copies) copy
CROSS JOIN certificates template
WHERE template.account_id = $1 AND template.order_id = $2
"""


async def _copy_the_rest(connection: Connection, template: Template, lot_id: str, first: int) -> None:
    order = (template.account_id, template.order_id)
    await connection.execute(COPY_CHARGES, *order)
    await connection.execute(COPY_SIMULATED_CHARGES)
    await connection.execute(COPY_PROJECTS, *order)
    await connection.execute(COPY_PARCELS, lot_id, first, template.quantity_grams)
    await connection.execute(COPY_SHARES, *order, first, template.quantity_grams)
    await connection.execute(COPY_CERTIFICATES, *order, template.certificate_number)
