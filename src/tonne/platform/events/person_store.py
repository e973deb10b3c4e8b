"""Reads and overwrites the events of an order whose person is erased: the only change that events ever undergo."""

from datetime import datetime
from typing import NamedTuple

import asyncpg
import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.events.payload import decode_document, encode_document
from tonne.platform.events.timeline import before_order
from tonne.platform.values.context import Scope


class StoredEvent(NamedTuple):
    """`document` is the JSON of the order, `own` that of what else the event is about, if it has such an object."""

    position: int
    id: str
    event_type: str
    sequence: datetime
    document: str
    own: str | None = None


LIST_OF_ORDER = """
SELECT position, id, event_type, sequence, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND subject_id = $4 AND sequence >= $5 ORDER BY position
"""


async def list_of_order(
    connection: Connection, scope: Scope, order_id: str, *, created_at: datetime
) -> list[StoredEvent]:
    key = (scope.organisation_id, scope.mode, scope.account_id, order_id, before_order(created_at))
    return [_stored_event(row) for row in await connection.fetch(LIST_OF_ORDER, *key)]


def _stored_event(row: asyncpg.Record) -> StoredEvent:
    document = decode_document(row["document"])
    own = None
    if not row["event_type"].startswith("order."):
        objects = msgspec.json.decode(b'{"own":%b}' % document, type=dict[str, msgspec.Raw])
        own, document = bytes(objects["own"]).decode(), bytes(objects["order"])
    return StoredEvent(**{**row, "document": document.decode()}, own=own)


OVERWRITE = """
UPDATE events SET document = $5 WHERE organisation_id = $1 AND mode = $2 AND position = $3 AND sequence = $4
"""


async def overwrite_document(tx: Connection, scope: Scope, event: StoredEvent) -> None:
    """Deliveries that have not begun, and rewound webhooks, send the new bytes."""
    document = event.document if event.own is None else f'{event.own},"order":{event.document}'
    stored = encode_document(document.encode())
    await tx.execute(OVERWRITE, scope.organisation_id, scope.mode, event.position, event.sequence, stored)
