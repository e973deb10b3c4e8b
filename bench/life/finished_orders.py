"""Copies of an order that the worker completed, with everything that it wrote except its events."""

import asyncio

from bench.copies import OF_THE_COPY, OrderTemplate, copy_order, copy_rows, copying, read_template, text_of
from bench.environment import Environment
from bench.tenants import MODE
from tonne.base.mass import GRAMS_PER_TONNE
from tonne.db.pool import Connection

TABLES = (
    "orders",
    "charges",
    "order_lines",
    "simulated_charges",
    "certificates",
    "order_projects",
    "parcels",
    "shares",
)

COUNT_FINISHED = "SELECT count(*) FROM orders WHERE status = 'complete'"


async def copy_finished(environment: Environment, total: int) -> None:
    """Add finished orders, to all tenants in turn, until there are `total`."""
    async with environment.connection() as connection:
        count = total - await connection.fetchval(COUNT_FINISHED)
    first = environment.copied + 1
    async with copying(environment, environment.tenants, count, events_each=0, tables=TABLES) as (one, two):
        order = await read_template(one, "complete")
        grams = await one.fetchval("SELECT quantity_grams FROM orders WHERE id = $1", order.id)
        lot_id = await _insert_lot(one, order, first, -(-count * grams // GRAMS_PER_TONNE))

        async def copy_the_rest() -> None:
            await _copy_charges(two, order)
            await copy_rows(two, "order_projects", order.rows, OF_THE_COPY)
            await two.execute(INSERT_PARCELS, lot_id, first, grams)
            await two.execute(INSERT_SHARES, order.account_id, order.id, first, grams)
            await _copy_certificates(two, order)

        await asyncio.gather(copy_order(one, order), copy_the_rest())
        await one.execute("VACUUM ANALYZE lots")


# As large as these copies need: nothing is left for later orders.
INSERT_LOT = """
WITH project AS (
    SELECT min(project_id) AS id FROM order_projects WHERE account_id = $4 AND order_id = $5
), block AS (
    INSERT INTO serial_blocks (registry, block)
    SELECT registry, 'TEST-BENCH-' || $2::bigint FROM projects WHERE mode = $1 AND id = (SELECT id FROM project)
    RETURNING number
)
INSERT INTO lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country, status,
                  allocated_grams, created_at)
SELECT $1, 'lot_' || lpad(($2::bigint)::text, 26, '0'), project.id, 2020, number, 1, $3::bigint, 'Nowhere', 'held',
       $3::bigint * 1000000, now()
FROM block CROSS JOIN project RETURNING id
"""


async def _insert_lot(connection: Connection, order: OrderTemplate, first: int, tonnes: int) -> str:
    lot_id: str = await connection.fetchval(INSERT_LOT, MODE, first, tonnes, order.account_id, order.id)
    return lot_id


INSERT_SIMULATED_CHARGES = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, reference, created_at)
SELECT copy.id, copy.customer, copy.method, copy.amount_minor, copy.currency, 'captured', copy.reference,
       copy.created_at
FROM charges copy WHERE copy.order_id IN (SELECT order_id FROM bench_copies)
"""


async def _copy_charges(connection: Connection, order: OrderTemplate) -> None:
    number = "lpad(copy.number::text, 26, '0')"
    changes = {
        **OF_THE_COPY,
        "organisation_id": "copy.organisation_id",
        "id": f"'chg_' || {number}",
        "reference": f"'sim_chg_' || {number}",
        "created_at": "copy.created_at",
        "settled_at": "copy.created_at",
    }
    await copy_rows(connection, "charges", f"{order.rows} AND template.status = 'captured'", changes)
    await connection.execute(INSERT_SIMULATED_CHARGES)


# The orders use the lot one after the other, in units of a tonne. All units are full except the last.
INSERT_PARCELS = """
INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id,
                     beneficiary, in_service_name, status, opened_at, retired_on, retired_at)
SELECT lot.mode, 'par_' || lpad($2::bigint || lpad(unit::text, 10, '0'), 26, '0'), lot.id, lot.project_id,
       unit * 1000000, 1000000, least(1000000, $3::bigint * (SELECT count(*) FROM bench_copies) - unit * 1000000), NULL,
       'Tonne', true, 'retired', now(), current_date, now()
FROM lots lot CROSS JOIN generate_series(0, lot.quantity_grams / 1000000 - 1) AS unit
WHERE lot.mode = 'test' AND lot.id = $1
"""
INSERT_SHARES = """
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
CERTIFICATE = "SELECT number, convert_from(record, 'UTF8') AS record FROM certificates WHERE order_id = $1"


async def _copy_certificates(connection: Connection, order: OrderTemplate) -> None:
    found = await connection.fetchrow(CERTIFICATE, order.id)
    if found is None:
        raise LookupError("there is no certificate to copy")
    number = "'TEST-' || upper(left(md5('certificate ' || copy.number), 19))"
    values = [(found["number"], number), (order.id, "copy.order_id"), (found["number"], number)]
    changes = {
        **OF_THE_COPY,
        "organisation_id": "copy.organisation_id",
        "number": number,
        "issued_at": "copy.created_at",
        "record": f"convert_to({text_of(found['record'], values)}, 'UTF8')",
    }
    await copy_rows(connection, "certificates", order.rows, changes)
