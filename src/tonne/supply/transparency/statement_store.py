"""SQL of what the entries of the log state."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from tonne.platform.db.database import Connection, columns, value_of
from tonne.platform.db.json_compression import JsonDictionary, compress_json, decompress_json
from tonne.platform.values.context import Mode
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.statements import ComposedStatement, WaitingStatement
from tonne_verify.openings import Opening

HAS_WAITING = "SELECT EXISTS (SELECT FROM log_statements WHERE mode = $1 AND log_id IS NULL)"


async def has_waiting(connection: Connection, mode: Mode) -> bool:
    return bool(await connection.fetchval(HAS_WAITING, mode))


# Skips rows that a correction or an erasure has locked: waiting for them here could deadlock.
LOCK_WAITING = """
SELECT id, mode, kind, subject, revision, at, names FROM log_statements
WHERE mode = $1 AND log_id IS NULL ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
"""


async def lock_waiting(tx: Connection, mode: Mode, limit: int) -> list[WaitingStatement]:
    """The oldest statements that are not in the log. Read what they state in a later statement of the transaction."""
    return [value_of(WaitingStatement, row) for row in await tx.fetch(LOCK_WAITING, mode, limit)]


STORE_STATEMENTS = """
UPDATE log_statements SET statement = composed.statement, salt = composed.salt, names = composed.names,
                          names_salt = composed.names_salt, log_id = $1, position = $2 + composed.place - 1
FROM unnest($3::bigint[], $4::bytea[], $5::bytea[], $6::text[], $7::bytea[])
     WITH ORDINALITY AS composed (id, statement, salt, names, names_salt, place)
WHERE log_statements.id = composed.id
"""


async def store_statements(tx: Connection, log_id: int, first: int, composed: Sequence[ComposedStatement]) -> None:
    """At consecutive positions from `first` on."""
    ids, salts, names, names_salts = columns(composed, "id, salt, names, names_salt")
    statements = [compress_json(each.statement, JsonDictionary.STATEMENT) for each in composed]
    await tx.execute(STORE_STATEMENTS, log_id, first, ids, statements, salts, names, names_salts)


# The reason why a certificate changed is only here. Other names are read again.
QUEUE_AGAIN = """
UPDATE log_statements SET log_id = NULL, position = NULL, statement = NULL, salt = NULL, names_salt = NULL,
                          names = CASE WHEN kind <> 'certificate.issued' THEN names END
WHERE log_id = $1 AND position >= $2
"""


async def queue_again(tx: Connection, log_id: int, first: int) -> int:
    """Statements of a closed log, from this position on. Returns how many."""
    return int((await tx.execute(QUEUE_AGAIN, log_id, first)).split()[-1])


READ_OPENINGS = """
SELECT position, statement, salt, names, names_salt FROM log_statements
WHERE log_id = $1 AND position < $2 ORDER BY position
"""


async def read_openings(tx: Connection, log: Log) -> AsyncIterator[dict[str, Any]]:
    """The published entries in their order. Entry 0 of a log that was opened again states nothing."""
    async for row in tx.cursor(READ_OPENINGS, log.id, log.published_size):
        names = None if row["names"] is None else msgspec.json.decode(row["names"])
        opening = Opening(msgspec.json.decode(decompress_json(row["statement"])), row["salt"], names, row["names_salt"])
        yield {"origin": log.origin, "position": row["position"], **opening.to_json()}
