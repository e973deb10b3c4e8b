"""All openings of a log, for auditors: what each of its entries states."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tonne.platform.db.pool import Connection
from tonne.supply.transparency.model import Log
from tonne_verify.openings import Opening

READ_OPENINGS = """
SELECT position, statement, salt, names, names_salt FROM log_statements
WHERE log_id = $1 AND position < $2 ORDER BY position
"""


async def read_openings(tx: Connection, log: Log) -> AsyncIterator[dict[str, Any]]:
    """The published entries in their order. Entry 0 of a log that was opened again states nothing."""
    async for row in tx.cursor(READ_OPENINGS, log.id, log.published_size):
        names = None if row["names"] is None else msgspec.json.decode(row["names"])
        opening = Opening(msgspec.json.decode(row["statement"]), row["salt"], names, row["names_salt"])
        yield {"origin": log.origin, "position": row["position"], **opening.to_json()}
