from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from asyncpg import Record
from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from tonne.platform.db.invariant import Invariant, RowInvariant, RowScan, SharedScan
from tonne.selling.orders.model import EVENT_TYPES, STATUS_KEPT, TRANSITIONS, OrderStatus
from tonne.selling.orders.totals.invariants import TOTALS


def _paths(*before: OrderStatus) -> Iterator[tuple[OrderStatus, ...]]:
    """All ways through the transition table that go on from these statuses, the longest first."""
    for one, other in TRANSITIONS:
        if one == before[-1]:
            yield from _paths(*before, other)
    yield before


def _is_path(path: tuple[OrderStatus, ...]) -> str:
    in_order = "".join(f" AND at_{one} < at_{other}" for one, other in pairwise(path))
    return f"events = {len(path)} AND at_{path[-1]} IS NOT NULL{in_order}"


# The position of each kind of event of an order. No status can be reached twice, so there is one of each kind at most.
_POSITIONS = ", ".join(
    f"max(position) FILTER (WHERE event_type = '{event_type}') AS at_{status}"
    for status, event_type in EVENT_TYPES.items()
)
_IS_COMPLETE_PATH = " OR ".join(map(_is_path, _paths(OrderStatus.RECEIVED)))
# The first events of an order may be older than what is checked.
_IS_PATH = " OR ".join(_is_path(path) for status in OrderStatus for path in _paths(status))
_KINDS = ", ".join(f"('{event_type}', at_{status})" for status, event_type in EVENT_TYPES.items())
_LAST_POSITION = " ".join(f"WHEN '{status}' THEN at_{status}" for status in OrderStatus)

_KEPT = ", ".join(f"'{event_type}'" for event_type in STATUS_KEPT)

# One row per order. An event may be older than the change of its order by the difference between two clocks.
_LIVES = SharedScan(f"""
    life AS MATERIALIZED (
        SELECT account_id, subject_id, count(*) AS events, max(position) AS last_position, {_POSITIONS}
        FROM events
        WHERE event_type LIKE 'order.%' AND event_type NOT IN ({_KEPT})
          AND ($1::timestamptz IS NULL OR sequence >= $1 - interval '1 hour')
        GROUP BY account_id, subject_id
    )
""")  # noqa: S608 - made of our own table


class ProjectJson(Struct, gc=False):
    status: str | None = None


class OrderJson(Struct, gc=False):
    """What of an order's stored JSON can be compared."""

    id: str | None = None
    idempotency_key: str | None = None
    status: str | None = None
    created_at: datetime | None = None
    metadata: Raw = Raw()
    projects: list[ProjectJson] = []


_decode_shown = Decoder(OrderJson).decode


def _parse(row: Record) -> OrderJson:
    try:
        return _decode_shown(row["wire_document"])
    except MsgspecError:
        # Differs from every order.
        return OrderJson()


def _differs(row: Record, shown: OrderJson) -> str | None:
    if (
        shown.id == row["order_id"]
        and shown.status == row["status"]
        and shown.idempotency_key == row["idempotency_key"]
        and shown.created_at == row["created_at"]
        and bytes(shown.metadata) == row["metadata"].encode()
    ):
        return None
    return f"order {row['order_id']} of account {row['account_id']}"


# Nearly all projects are retired: the status of each is read only for orders for which one is not.
DOCUMENTS = RowScan(
    """
    SELECT orders.account_id, orders.id AS order_id, orders.status, orders.idempotency_key, orders.metadata,
           orders.created_at, orders.next_attempt_at, orders.wire_document, coalesce(project.projects, 0) AS projects,
           CASE WHEN project.projects <> project.retired
                THEN (SELECT array_agg(each.status ORDER BY each.position) FROM order_projects each
                      WHERE each.account_id = orders.account_id AND each.order_id = orders.id) END AS statuses
    FROM orders
    LEFT JOIN (SELECT account_id, order_id, count(*) AS projects, count(*) FILTER (WHERE status = 'retired') AS retired
               FROM order_projects GROUP BY account_id, order_id) project
      ON project.account_id = orders.account_id AND project.order_id = orders.id
    WHERE $1::timestamptz IS NULL OR orders.status_changed_at >= $1
    """,
    _parse,
)

# Events up to the floor of a stream were removed.
_FIRST_REMOVED = "orders.created_at <= stream.floor_sequence"

INVARIANTS = (
    Invariant(
        "an order's events follow the transition table",
        "An order made a transition that does not exist, or an event is missing or duplicated.",
        f"""
        SELECT format('order %s of account %s: %s events, among them %s', subject_id, account_id, events,
                      coalesce((SELECT string_agg(event_type, ', ' ORDER BY position)
                                FROM (VALUES {_KINDS}) AS kind (event_type, position) WHERE position IS NOT NULL),
                               'none that exists')) AS "where"
        FROM life
        WHERE events > 0 AND ({_IS_COMPLETE_PATH}) IS NOT TRUE
          AND ($1::timestamptz IS NULL OR ({_IS_PATH}) IS NOT TRUE)
          AND NOT (({_IS_PATH}) AND EXISTS (
              SELECT FROM orders JOIN event_streams stream USING (organisation_id, mode)
              WHERE orders.account_id = life.account_id AND orders.id = life.subject_id AND {_FIRST_REMOVED}))
        """,  # noqa: S608 - made of our own table
        _LIVES,
    ),
    Invariant(
        "an order's last event matches its status",
        "An order changed its status without an event, or an event was written without the change.",
        f"""
        SELECT format('order %s of account %s is %s, its last event is %s', orders.id, orders.account_id, orders.status,
                      coalesce((SELECT kind.event_type FROM (VALUES {_KINDS}) AS kind (event_type, position)
                                WHERE kind.position = life.last_position), 'missing')) AS "where"
        FROM orders LEFT JOIN life ON life.account_id = orders.account_id AND life.subject_id = orders.id
        WHERE CASE orders.status {_LAST_POSITION} END IS DISTINCT FROM coalesce(life.last_position, 0)
          AND ($1::timestamptz IS NULL OR orders.status_changed_at >= $1)
          AND NOT (life.last_position IS NULL AND EXISTS (
              SELECT FROM event_streams stream WHERE stream.organisation_id = orders.organisation_id
                AND stream.mode = orders.mode AND {_FIRST_REMOVED}))
        """,  # noqa: S608 - made of our own table
        _LIVES,
    ),
    Invariant(
        "lines sum to their order, in grams and in money",
        "The lines of an order do not add up to its totals.",
        """
        SELECT format('order %s of account %s: %s of %s g, %s of %s', orders.id, orders.account_id,
                      line.grams, orders.quantity_grams, money_text(line.cost_minor, orders.currency),
                      money_text(orders.offset_cost_minor, orders.currency)) AS "where"
        FROM orders
        LEFT JOIN (SELECT account_id, order_id, sum(quantity_grams) AS grams, sum(offset_cost_minor) AS cost_minor
                   FROM order_lines GROUP BY account_id, order_id) line
          ON line.account_id = orders.account_id AND line.order_id = orders.id
        WHERE (line.grams IS DISTINCT FROM orders.quantity_grams
               OR line.cost_minor IS DISTINCT FROM orders.offset_cost_minor)
          AND ($1::timestamptz IS NULL OR orders.status_changed_at >= $1)
        """,
    ),
    RowInvariant(
        "an order's JSON matches its columns",
        "The stored JSON of an order differs from its columns: clients would see wrong data.",
        DOCUMENTS,
        _differs,
    ),
    Invariant(
        "the totals of orders match the orders",
        "The sums that the overview shows are wrong: orders were written without the triggers that count them.",
        """
        SELECT format('%s orders of organisation %s in %s mode, %s: %s orders, %s g, %s cost, %s tax, %s refunded',
                      status, organisation_id, mode, to_char(month, 'YYYY-MM'), sum(orders), sum(grams),
                      money_text(sum(cost_minor), currency), money_text(sum(tax_minor), currency),
                      money_text(sum(refunded_minor), currency)) || ' are not counted' AS "where"
        FROM (SELECT organisation_id, mode, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS month,
                     currency::text AS currency, status, count(*) AS orders, coalesce(sum(quantity_grams), 0) AS grams,
                     coalesce(sum(total_cost_minor + billing_adjustment_minor), 0) AS cost_minor,
                     coalesce(sum(tax_minor), 0) AS tax_minor,
                     sum(refunded_minor) AS refunded_minor
              FROM orders GROUP BY 1, 2, 3, 4, 5
              UNION ALL
              SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor,
                     -refunded_minor FROM order_totals
              UNION ALL
              SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor,
                     -refunded_minor FROM order_deltas) counted
        GROUP BY organisation_id, mode, month, currency, status
        HAVING sum(orders) <> 0 OR sum(grams) <> 0 OR sum(cost_minor) <> 0 OR sum(tax_minor) <> 0
            OR sum(refunded_minor) <> 0
        """,
    ),
    *TOTALS,
)
