"""Filling the tables quickly: copies of one order that was really placed, each with its own ids, key and times."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bench.bulk import without_flushing, without_indexes
from bench.stage import Stage
from bench.tenants import MODE, Tenant
from tonne.base.clock import to_wire
from tonne.db.pool import Connection

TABLES = ("orders", "order_lines", "events")


@dataclass(frozen=True, slots=True)
class EventTemplate:
    event_type: str
    # The payload, cut where a copy puts its event id, account, sequence, order id, key, creation time, estimate.
    pieces: list[str]


@dataclass(frozen=True, slots=True)
class Template:
    account_id: str
    order_id: str
    # The document, cut where a copy puts its order id, key, creation time, estimate.
    pieces: list[str]
    events: list[EventTemplate]


async def fill(stage: Stage, tenants: Sequence[Tenant], *, first: int, count: int) -> None:
    """Add `count` orders, numbered from `first`, to `tenants` in turn: orders of many accounts lie mixed in real life.

    The tables are left as a database at rest leaves them: vacuumed, analysed, on disk.
    """
    async with stage.connection() as one, stage.connection() as two, without_flushing(one):
        for connection in (one, two):
            # Foreign keys are triggers, and these rows are right by construction; the doctor looks at them afterwards.
            await connection.execute("SET session_replication_role = replica")
        template = await _read_template(one)
        await one.execute(CREATE_COPIES)
        await _plan_copies(one, tenants, first=first, count=count, events_each=len(template.events))
        async with without_indexes(one, two, TABLES):
            await asyncio.gather(_copy_orders(one, template), _copy_events(two, template))
        await one.execute(ADVANCE_STREAMS, len(template.events), MODE)
        await one.execute("DROP TABLE bench_copies")
        await asyncio.gather(one.execute("VACUUM ANALYZE orders, order_lines"), two.execute("VACUUM ANALYZE events"))
        await one.execute("VACUUM ANALYZE event_streams")


NEWEST_ORDER = """
SELECT account_id, id, idempotency_key, estimate_id, created_at, wire_document FROM orders ORDER BY id DESC LIMIT 1
"""
ITS_EVENTS = """
SELECT id, event_type, sequence, payload FROM events WHERE account_id = $1 AND subject_id = $2 ORDER BY position
"""


async def _read_template(connection: Connection) -> Template:
    """From the order with the highest id: those of copies begin with zeros, so that one was placed over HTTP."""
    order = await connection.fetchrow(NEWEST_ORDER)
    if order is None:
        raise LookupError("there is no order to copy yet")
    own = [order["id"], order["idempotency_key"], to_wire(order["created_at"]), order["estimate_id"]]
    events = [
        EventTemplate(
            event["event_type"],
            _cut(event["payload"], [event["id"], order["account_id"], to_wire(event["sequence"]), *own]),
        )
        for event in await connection.fetch(ITS_EVENTS, order["account_id"], order["id"])
    ]
    return Template(order["account_id"], order["id"], _cut(order["wire_document"].decode(), own), events)


def _cut(text: str, values: Sequence[str]) -> list[str]:
    """The pieces of `text` between `values`, which must all be there, in this order."""
    pieces = []
    for value in values:
        before, found, text = text.partition(value)
        if not found:
            raise ValueError(f"{value} is not where it was: has the order's document a new form?")
        pieces.append(before)
    return [*pieces, text]


CREATE_COPIES = """
CREATE UNLOGGED TABLE bench_copies (
    number bigint, organisation_id text, account_id text, estimate_id text, order_id text, key text,
    created_at timestamptz, created_at_text text, before_position bigint, before_sequence timestamptz
)
"""
# Ids sort in the order of creation, as real ones do; keys are in no order, as real ones are.
PLAN_COPIES = """
INSERT INTO bench_copies (number, organisation_id, account_id, estimate_id, order_id, key, created_at, created_at_text,
                          before_position, before_sequence)
SELECT number, slot.organisation_id, slot.account_id, slot.estimate_id, 'ord_' || lpad(number::text, 26, '0'),
       left(md5(number::text), 24), created_at,
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
       stream.last_position + before, stream.last_sequence + before * interval '1 ms'
FROM (SELECT number, date_trunc('second', now()) - interval '30 days' + number * interval '1 s' AS created_at,
             $6::bigint * ((number - $4::bigint) / cardinality($1::text[])) AS before
      FROM generate_series($4::bigint, $5::bigint) AS number) copy
JOIN unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
     AS slot (organisation_id, account_id, estimate_id, place) ON slot.place = 1 + number % cardinality($1::text[])
JOIN event_streams stream ON stream.organisation_id = slot.organisation_id AND stream.mode = $7
"""


async def _plan_copies(
    connection: Connection, tenants: Sequence[Tenant], *, first: int, count: int, events_each: int
) -> None:
    await connection.execute(
        PLAN_COPIES,
        [tenant.scope.organisation_id for tenant in tenants],
        [tenant.scope.account_id for tenant in tenants],
        [tenant.estimate_id for tenant in tenants],
        first,
        first + count - 1,
        events_each,
        MODE,
    )
    await connection.execute("ANALYZE bench_copies")


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
       convert_to($3 || copy.order_id || $4 || copy.key || $5 || copy.created_at_text || $6 || copy.estimate_id || $7,
                  'UTF8')
FROM bench_copies copy CROSS JOIN orders template
WHERE template.account_id = $1 AND template.id = $2
"""
COPY_LINES = """
INSERT INTO order_lines (account_id, order_id, position, bundle_id, bundle_name, primary_image, quantity_grams,
                         unit_price_minor, gross_unit_price_minor, offset_cost_minor, insufficient_available_quantity)
SELECT copy.account_id, copy.order_id, position, bundle_id, bundle_name, primary_image, quantity_grams,
       unit_price_minor, gross_unit_price_minor, offset_cost_minor, insufficient_available_quantity
FROM bench_copies copy CROSS JOIN order_lines template
WHERE template.account_id = $1 AND template.order_id = $2
"""


async def _copy_orders(connection: Connection, template: Template) -> None:
    await connection.execute(COPY_ORDERS, template.account_id, template.order_id, *template.pieces)
    await connection.execute(COPY_LINES, template.account_id, template.order_id)


COPY_EVENTS = """
INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, payload)
SELECT organisation_id, $1, before_position + $3::bigint, event_id, account_id, order_id, $2, sequence,
       $4 || event_id || $5 || account_id || $6
       || to_char(sequence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
       || $7 || order_id || $8 || key || $9 || created_at_text || $10 || estimate_id || $11
FROM (SELECT bench_copies.*, before_sequence + $3::bigint * interval '1 ms' AS sequence,
             'evt_' || lpad($3::bigint || lpad(number::text, 20, '0'), 26, '0') AS event_id
      FROM bench_copies) copy
"""


async def _copy_events(connection: Connection, template: Template) -> None:
    for step, event in enumerate(template.events, 1):
        await connection.execute(COPY_EVENTS, MODE, event.event_type, step, *event.pieces)


ADVANCE_STREAMS = """
UPDATE event_streams stream
SET last_position = last_position + $1::bigint * added,
    last_sequence = last_sequence + $1::bigint * added * interval '1 ms'
FROM (SELECT organisation_id, count(*) AS added FROM bench_copies GROUP BY organisation_id) copies
WHERE stream.organisation_id = copies.organisation_id AND stream.mode = $2
"""
