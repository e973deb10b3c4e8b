"""Stored events with their payloads."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.events.payload import event_payload, head_of


@dataclass(frozen=True, slots=True)
class StoredEvent:
    organisation_id: str
    mode: str
    position: int
    id: str
    account_id: str
    subject_id: str
    event_type: str
    sequence: datetime
    # As it is delivered.
    payload: bytes

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = msgspec.json.decode(self.payload)
        return content

    @property
    def document(self) -> bytes:
        """The JSON of the subject, with its bytes."""
        [document] = msgspec.json.decode(self.payload, type=_Event).data.values()
        return bytes(document)


class _Event(msgspec.Struct):
    data: dict[str, msgspec.Raw]


STORED_EVENTS = f"""
SELECT organisation_id, mode, position, id, account_id, subject_id, event_type, sequence,
       {head_of("events")} AS head, document
FROM events WHERE $1::text IS NULL OR subject_id = $1 ORDER BY organisation_id, mode, position
"""  # noqa: S608 - only the expression above is inserted


async def stored_events(connection: Connection, subject_id: str | None = None) -> list[StoredEvent]:
    """All events, or those of one subject, in order."""
    rows = await connection.fetch(STORED_EVENTS, subject_id)
    return [StoredEvent(**_columns(row), payload=event_payload(row["head"], row["document"])) for row in rows]


def _columns(row: asyncpg.Record) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"head", "document"}}
