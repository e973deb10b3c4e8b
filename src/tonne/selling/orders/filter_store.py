"""SQL of an account's list of orders with filters, newest first.

A page reads at most `SCANNED` rows of one index. If too few of them match, the page is short and its cursor continues
after the last row that was read: no filter can make a page slow, however many orders the account has.
"""

from datetime import UTC, datetime

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import Position
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.order_filter import OrderFilter

SCANNED = 10_000
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
# `metadata` is text with any JSON number in it: as `jsonb`, numbers out of range would fail. Because of `LIMIT 1`, the
# lines of each order are looked up: for EXISTS, the planner reads the lines of all accounts into a hash table.
_MATCHES = """
found.account_id = $1 AND ($6::text IS NULL OR found.status = $6) AND ($7::text IS NULL OR found.estimate_id = $7)
  AND ($8::text IS NULL OR found.offset_link_id = $8)
  AND ($9::text IS NULL OR (SELECT true FROM order_lines line
       WHERE line.account_id = $1 AND line.order_id = found.id AND line.bundle_id = $9 LIMIT 1) IS TRUE)
  AND ($10::text[] IS NULL OR NOT EXISTS (SELECT FROM unnest($10::text[], $11::text[]) AS keys (key, value)
       WHERE found.metadata::json ->> keys.key IS DISTINCT FROM keys.value))
  AND ($12::text IS NULL OR found.external_id = $12) AND ($13::text IS NULL OR found.reference = $13)
"""
_COLUMNS = (
    "account_id, id, created_at, wire_document, status, estimate_id, offset_link_id, metadata, external_id, reference"
)
_HEAD = f"""
id, created_at, CASE WHEN matches THEN wire_document END AS document, place FROM (
    SELECT id, created_at, wire_document, row_number() OVER () AS place, {_MATCHES} AS matches FROM (
      SELECT {_COLUMNS} FROM orders
"""  # noqa: S608 - constants
_TAIL = f"""
        AND (created_at, id) < ($2, $3) AND created_at >= $4
      ORDER BY created_at DESC, id DESC LIMIT {SCANNED}) AS found
) AS scanned WHERE matches OR place = {SCANNED} LIMIT $5
"""


class FilteredOrders:
    """The documents of one page. `next` is where the next page starts, None after the last."""

    def __init__(self, rows: list[asyncpg.Record], limit: int) -> None:
        matching = [row for row in rows if row["document"] is not None]
        self.documents: list[bytes] = [row["document"] for row in matching[:limit]]
        # Further orders may match that were not read.
        self.is_short = len(matching) <= limit and bool(rows) and rows[-1]["place"] == SCANNED
        self.next: Position | None = None
        if len(matching) > limit:
            self.next = Position(matching[limit - 1]["created_at"], matching[limit - 1]["id"])
        elif self.is_short:
            self.next = Position(rows[-1]["created_at"], rows[-1]["id"])


async def list_filtered(
    connection: Connection, scope: Scope, requested: OrderFilter, start: Position, limit: int
) -> FilteredOrders:
    """One page through the index that fits the filters best."""
    before = requested.latest(start)
    parameters = (
        *(before.created_at, before.id, requested.created_after or _EARLIEST, limit + 1),
        *(requested.status, requested.estimate_id, requested.offset_link_id, requested.bundle_id),
        *requested.metadata_arrays,
        *(requested.external_id, requested.reference),
    )
    for value, list_rows in (
        (requested.external_id, _list_of_external_id),
        (requested.reference, _list_of_reference),
        (requested.estimate_id, _list_of_estimate),
        (requested.offset_link_id, _list_of_link),
    ):
        if value is not None:
            return FilteredOrders(await list_rows(connection, scope, parameters), limit)
    if requested.status in {None, OrderStatus.COMPLETE}:
        return FilteredOrders(await _list_of_account(connection, scope, parameters), limit)
    by_status = FilteredOrders(await _list_of_status(connection, scope, parameters), limit)
    if not by_status.is_short:
        return by_status
    # The organisation has many orders in this status, most of which do not match. Its cursor would contain the id of an
    # order of another account.
    return FilteredOrders(await _list_of_account(connection, scope, parameters), limit)


LIST_OF_ACCOUNT = f"SELECT {_HEAD} WHERE account_id = $1 {_TAIL}"


async def _list_of_account(
    connection: Connection, scope: Scope, parameters: tuple[object, ...]
) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_ACCOUNT, scope.account_id, *parameters)


LIST_OF_ESTIMATE = f"SELECT {_HEAD} WHERE account_id = $1 AND estimate_id = $7 {_TAIL}"


async def _list_of_estimate(
    connection: Connection, scope: Scope, parameters: tuple[object, ...]
) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_ESTIMATE, scope.account_id, *parameters)


LIST_OF_EXTERNAL_ID = f"SELECT {_HEAD} WHERE account_id = $1 AND external_id = $12 {_TAIL}"


async def _list_of_external_id(
    connection: Connection, scope: Scope, parameters: tuple[object, ...]
) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_EXTERNAL_ID, scope.account_id, *parameters)


LIST_OF_REFERENCE = f"SELECT {_HEAD} WHERE account_id = $1 AND reference = $13 {_TAIL}"


async def _list_of_reference(
    connection: Connection, scope: Scope, parameters: tuple[object, ...]
) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_REFERENCE, scope.account_id, *parameters)


LIST_OF_LINK = f"SELECT {_HEAD} WHERE account_id = $1 AND offset_link_id = $8 {_TAIL}"


async def _list_of_link(connection: Connection, scope: Scope, parameters: tuple[object, ...]) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_LINK, scope.account_id, *parameters)


# The account is not among the conditions of the scan, which would then be unbounded: the index contains the orders of
# all accounts of the organisation. `<> 'complete'` says that the partial index can be used, whatever the parameter is.
LIST_OF_STATUS = f"""
SELECT {_HEAD} WHERE organisation_id = $14 AND mode = $15 AND status = $6 AND status <> 'complete' {_TAIL}
"""


async def _list_of_status(connection: Connection, scope: Scope, parameters: tuple[object, ...]) -> list[asyncpg.Record]:
    return await connection.fetch(LIST_OF_STATUS, scope.account_id, *parameters, scope.organisation_id, scope.mode)
