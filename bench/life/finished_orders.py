"""Copies of an order that the worker completed, with everything that it wrote. Their events are optional."""

import asyncio

import msgspec

from bench.copies import (
    EVENTS_OF_ORDER,
    OF_THE_COPY,
    OrderTemplate,
    copy_event,
    copy_order,
    copy_rows,
    copying,
    read_template,
    text_of,
)
from bench.environment import Environment
from tonne.platform.db.database import Connection
from tonne.platform.db.json_compression import decompress_json

TABLES = (
    "orders",
    "charges",
    "charge_orders",
    "order_lines",
    "simulated_charges",
    "certificates",
    "order_projects",
    "parcels",
    "shares",
)

COUNT_FINISHED = "SELECT count(*) FROM orders WHERE status = 'complete'"


async def copy_finished(environment: Environment, total: int, *, with_events: bool = False) -> None:
    """Add finished orders, to all tenants in turn, until there are `total`.

    With their events they are as consistent as orders that the service completed.
    """
    async with environment.connection() as connection:
        count = total - await connection.fetchval(COUNT_FINISHED)
        order = await read_template(connection, "complete")
        events = await connection.fetch(EVENTS_OF_ORDER, order.account_id, order.id) if with_events else []
    first = environment.copied + 1
    tables = (*TABLES, "events") if with_events else TABLES
    async with copying(environment, environment.tenants, count, events_each=len(events), tables=tables) as (one, two):
        await _insert_lots(one, order, first, count)

        async def copy_orders_and_events() -> None:
            await copy_order(one, order)
            for step, event in enumerate(events, 1):
                await copy_event(one, event, step, order)

        async def copy_the_rest() -> None:
            await _copy_charges(two, order)
            await copy_rows(two, "order_projects", order.rows, OF_THE_COPY)
            await two.execute(INSERT_PARCELS, count)
            await two.execute(INSERT_SHARES, first)
            await _copy_certificates(two, order)
            await two.execute(ADD_RETIRED_TOTALS, order.account_id, order.id)

        await asyncio.gather(copy_orders_and_events(), copy_the_rest())
        await one.execute(ADD_RETIRED_VINTAGES)
        await one.execute("DROP TABLE bench_lots")
        await one.execute("VACUUM ANALYZE lots, retired_totals, retired_vintages")


# One lot for each project of the order. As large as these copies need: nothing is left for later orders.
PLAN_LOTS = """
CREATE UNLOGGED TABLE bench_lots AS
SELECT each.position, each.line_position, each.quantity_grams, each.project_id, project.registry,
       project.registry_project_id, lot.mode, lot.vintage, lot.country, lot.status, lot.retired_on, lot.organisation_id,
       lot.beneficiary, 'TEST-BENCH-' || {first} || '-' || each.position AS block,
       project.granularity_grams AS unit,
       'lot_' || lpad('{first}' || lpad(each.position::text, 2, '0'), 26, '0') AS lot_id,
       lpad('{first}' || lpad(each.position::text, 2, '0'), 14, '0') AS parcel_prefix,
       ({count}::bigint * each.quantity_grams + project.granularity_grams - 1) / project.granularity_grams AS units
FROM order_projects each
JOIN LATERAL (
    SELECT lot.mode, lot.vintage, lot.country, lot.status, parcel.retired_on, share.organisation_id, share.beneficiary
    FROM shares share
    JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
    WHERE share.account_id = each.account_id AND share.order_id = each.order_id
      AND share.line_position = each.line_position AND lot.project_id = each.project_id
    LIMIT 1) lot ON true
JOIN projects project ON project.mode = lot.mode AND project.id = each.project_id
WHERE {rows}
"""
INSERT_LOTS = """
WITH block AS (
    INSERT INTO serial_blocks (namespace) SELECT named.namespace FROM bench_lots CROSS JOIN LATERAL (
        SELECT upper(regexp_replace(registry, '[^A-Za-z]', '', 'g')) || ' ' || replace(block, '-', '') AS namespace
    ) named RETURNING number, namespace
)
INSERT INTO lots (mode, id, project_id, vintage, serial, serial_block, first_number, last_number, unit_grams,
                  quantity_grams, country, status, allocated_grams, created_at)
SELECT mode, lot_id, project_id, vintage, block || ' 1–' || units, number, 1, units, unit, units * unit, country,
       status, units * unit, now()
FROM bench_lots JOIN block ON block.namespace LIKE '% ' || replace(bench_lots.block, '-', '')
"""


async def _insert_lots(connection: Connection, order: OrderTemplate, first: int, count: int) -> None:
    rows = order.rows.replace("template.", "each.")
    await connection.execute(PLAN_LOTS.format(first=first, count=count, rows=rows))
    await connection.execute(INSERT_LOTS)


INSERT_SIMULATED_CHARGES = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, reference, created_at)
SELECT copy.id, copy.customer, copy.method, copy.amount_minor, copy.currency, 'captured', copy.reference,
       copy.created_at
FROM charges copy WHERE copy.order_id IN (SELECT order_id FROM bench_copies)
"""


INSERT_CHARGE_ORDERS = """
INSERT INTO charge_orders (account_id, charge_id, order_id, amount_minor)
SELECT copy.account_id, copy.id, copy.order_id, copy.amount_minor
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
    await connection.execute(INSERT_CHARGE_ORDERS)
    await connection.execute(INSERT_SIMULATED_CHARGES)


# The orders use each lot one after the other, in units of a tonne. All units are full except the last.
INSERT_PARCELS = """
INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id,
                     beneficiary, in_service_name, status, opened_at, retired_on, retired_at)
SELECT mode, 'par_' || parcel_prefix || lpad(number::text, 12, '0'), lot_id, project_id, number * unit, unit,
       least(unit, $1::bigint * quantity_grams - number * unit), NULL, 'Tonne', true, 'retired', now(),
       retired_on, now()
FROM bench_lots CROSS JOIN generate_series(0, units - 1) AS number
"""
INSERT_SHARES = """
INSERT INTO shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary, quantity_grams)
SELECT piece.account_id, piece.order_id, piece.line_position, piece.mode,
       'par_' || piece.parcel_prefix || lpad(number::text, 12, '0'), piece.organisation_id, piece.beneficiary,
       least(piece.start + piece.quantity_grams, (number + 1) * piece.unit) - greatest(piece.start, number * piece.unit)
FROM (SELECT copy.account_id, copy.order_id, copy.organisation_id, lot.line_position, lot.mode, lot.parcel_prefix,
             lot.quantity_grams, lot.unit, lot.beneficiary, (copy.number - $1::bigint) * lot.quantity_grams AS start
      FROM bench_copies copy CROSS JOIN bench_lots lot) piece
CROSS JOIN LATERAL generate_series(piece.start / unit, (piece.start + piece.quantity_grams - 1) / unit) AS number
"""
CERTIFICATE = "SELECT number, record FROM certificates WHERE order_id = $1"
LINES_OF_COPIES = """
JOIN (SELECT share.order_id, string_agg({line}, ',' ORDER BY share.line_position, share.parcel_id) AS lines
      FROM shares share JOIN bench_lots lot ON lot.parcel_prefix = substr(share.parcel_id, 5, 14)
      WHERE share.order_id IN (SELECT order_id FROM bench_copies) GROUP BY share.order_id) stated
  ON stated.order_id = copy.order_id
"""


async def _copy_certificates(connection: Connection, order: OrderTemplate) -> None:
    """The lines state the shares of the copy, each with its own serial number. PostgreSQL cannot compress them."""
    found = await connection.fetchrow(CERTIFICATE, order.id)
    if found is None:
        raise LookupError("there is no certificate to copy")
    number = "'TEST-' || upper(left(md5('certificate ' || copy.number), 19))"
    values = [(found["number"], number), (order.id, "copy.order_id"), (found["number"], number)]
    record = decompress_json(found["record"]).decode()
    lines = msgspec.json.decode(record)["lines"]
    values.append((msgspec.json.encode(lines).decode(), "'[' || stated.lines || ']'"))
    changes = {
        **OF_THE_COPY,
        "organisation_id": "copy.organisation_id",
        "number": number,
        "issued_at": "copy.created_at",
        "record": f"convert_to({text_of(record, values)}, 'UTF8')",
    }
    cases = "".join(f" WHEN '{line['project_id']}' THEN {_line_of_copy(line)}" for line in lines)
    joined = LINES_OF_COPIES.format(line=f"CASE lot.registry_project_id{cases} END")
    await copy_rows(connection, "certificates", order.rows, changes, joined=joined)


def _line_of_copy(line: dict[str, str]) -> str:
    tonnes = "trim_scale(share.quantity_grams / 1000000.0)"
    serial = "lot.block || ' ' || (right(share.parcel_id, 12)::bigint + 1)"
    values = [(line["serial_range"], serial), (line["quantity"], tonnes), (line["quantity"], tonnes)]
    return f"({text_of(msgspec.json.encode(line).decode(), values)})"


ADD_RETIRED_TOTALS = """
INSERT INTO retired_totals (account_id, month, bundle_id, project_id, bundle_name, project_name, project_type, grams)
SELECT copy.account_id, date_trunc('month', copy.created_at AT TIME ZONE 'UTC')::date, line.bundle_id,
       project.project_id, line.bundle_name, project.project_name, project.project_type, sum(project.quantity_grams)
FROM bench_copies copy CROSS JOIN order_projects project
JOIN order_lines line ON line.account_id = project.account_id AND line.order_id = project.order_id
                     AND line.position = project.line_position
WHERE project.account_id = $1 AND project.order_id = $2
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (account_id, month, bundle_id, project_id) DO UPDATE SET grams = retired_totals.grams + excluded.grams
"""
ADD_RETIRED_VINTAGES = """
INSERT INTO retired_vintages AS total (account_id, year, registry, registry_project_id, vintage, grams)
SELECT copy.account_id, extract(year FROM copy.created_at AT TIME ZONE 'UTC')::smallint, lot.registry,
       lot.registry_project_id, lot.vintage, sum(lot.quantity_grams)
FROM bench_copies copy CROSS JOIN bench_lots lot
GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (account_id, year, registry, registry_project_id, vintage)
DO UPDATE SET grams = total.grams + excluded.grams
"""
