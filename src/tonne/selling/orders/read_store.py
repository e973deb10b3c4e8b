"""SQL of the API's reads of orders: their JSON, and the version of all orders of an organisation and mode.

Whatever changes the JSON of an order appends an event or raises `rewritten` in the same transaction. A statement
that returns both, or the version that was read before the JSON, never has a version that is too new.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.paging import Position
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.placing.insert_store import KeyOfClient

# The time of the last event makes it differ from those before a backup was restored.
_VERSION = "last_position || '.' || extract(epoch FROM last_sequence) || '.' || rewritten AS version"


class ReadOrder(NamedTuple):
    document: bytes
    version: str


READ_BY_ID = f"""
SELECT orders.account_id, orders.id, orders.wire_document, {_VERSION}
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
JOIN event_streams stream ON stream.organisation_id = orders.organisation_id AND stream.mode = orders.mode
"""  # noqa: S608 - a constant


async def read_by_id(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, ReadOrder]:
    rows = await connection.fetch(READ_BY_ID, *columns(keys, "account_id, id"))
    return {OrderKey(account_id, id_): ReadOrder(*read) for account_id, id_, *read in rows}


READ_BY_KEY = f"""
SELECT orders.account_id, orders.idempotency_key, orders.wire_document, {_VERSION}
FROM unnest($1::text[], $2::text[]) AS keys (account_id, idempotency_key)
JOIN orders ON orders.account_id = keys.account_id AND orders.idempotency_key = keys.idempotency_key
JOIN event_streams stream ON stream.organisation_id = orders.organisation_id AND stream.mode = orders.mode
"""  # noqa: S608 - a constant


async def read_by_key(connection: Connection, keys: Sequence[KeyOfClient]) -> dict[KeyOfClient, ReadOrder]:
    rows = await connection.fetch(READ_BY_KEY, *columns(keys, "account_id, idempotency_key"))
    return {KeyOfClient(account_id, key): ReadOrder(*read) for account_id, key, *read in rows}


READ_VERSIONS = f"""
SELECT organisation_id, mode, {_VERSION} FROM unnest($1::text[], $2::mode[]) AS keys (organisation_id, mode)
JOIN event_streams USING (organisation_id, mode)
"""  # noqa: S608 - a constant


async def read_versions(connection: Connection, streams: Sequence[Stream]) -> dict[Stream, str]:
    rows = await connection.fetch(READ_VERSIONS, *columns(streams, "organisation_id, mode"))
    return {Stream(organisation_id, Mode(mode)): version for organisation_id, mode, version in rows}


class JoinedOrders(NamedTuple):
    """The JSON of orders, newest first, joined by commas; their number, and the sizes in bytes of the last two."""

    joined: bytes
    number: int
    last_sizes: list[int]
    version: str


# One value instead of rows: decoding a hundred rows costs more than the rest of the request. The subquery returns the
# rows sorted; ORDER BY in the aggregates would copy and sort all documents again.
_JOINED = """coalesce(string_agg(wire_document, ','), '') AS joined, count(*) AS number,
       (array_agg(octet_length(wire_document)))[greatest(count(*) - 1, 1):] AS last_sizes"""
LIST_ORDERS = f"""
SELECT {_JOINED}, (SELECT {_VERSION} FROM event_streams WHERE organisation_id = $5 AND mode = $6)
FROM (SELECT created_at, id, wire_document FROM orders WHERE account_id = $1 AND (created_at, id) < ($2, $3)
      ORDER BY created_at DESC, id DESC LIMIT $4) AS page
"""  # noqa: S608 - a constant


async def list_orders(connection: Connection, scope: Scope, start: Position, limit: int) -> JoinedOrders:
    [row] = await connection.fetch(
        LIST_ORDERS, scope.account_id, start.created_at, start.id, limit, scope.organisation_id, scope.mode
    )
    return JoinedOrders(**row)
