"""SQL of erasures."""

import secrets
from collections.abc import Sequence
from datetime import datetime

import asyncpg
import msgspec

from tonne.apps.privacy.model import Erasure, FoundBy
from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.platform.values.context import Mode, replace

# One erasure at a time chooses the salt.
LOCK_SALT = "SELECT pg_advisory_xact_lock(7029)"
FIND_SALT = "SELECT salt FROM erasures ORDER BY started_at, id LIMIT 1"


async def choose_salt_any_account(tx: Connection) -> bytes:
    """The salt of all erasures: each can then be compared with all addresses at the cost of one hash per address."""
    await tx.execute(LOCK_SALT)
    salt: bytes | None = await tx.fetchval(FIND_SALT)
    return salt or secrets.token_bytes(32)


_PLAIN = "id, organisation_id, mode, found_by, salt, person_hash, started_at, started_by, finished_at"
_COLUMNS = f"{_PLAIN}, counts"
INSERT_ERASURE = f"""
INSERT INTO erasures ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""  # noqa: S608 - columns above


async def insert_erasure(tx: Connection, organisation_id: str | None, erasure: Erasure) -> None:
    stored = replace(erasure, organisation_id=organisation_id)
    await tx.execute(INSERT_ERASURE, *parameters_of(stored, _PLAIN), msgspec.json.encode(erasure.counts).decode())


FIND_UNFINISHED = f"""
SELECT {_COLUMNS} FROM erasures
WHERE finished_at IS NULL AND person_hash = $1 AND organisation_id IS NOT DISTINCT FROM $2
  AND mode IS NOT DISTINCT FROM $3
ORDER BY started_at LIMIT 1
"""  # noqa: S608 - columns above


async def find_unfinished(
    connection: Connection, organisation_id: str | None, mode: Mode | None, person_hash: bytes
) -> Erasure | None:
    """An erasure of the same person that was interrupted."""
    row = await connection.fetchrow(FIND_UNFINISHED, person_hash, organisation_id, mode)
    return None if row is None else _erasure(row)


FINISH = "UPDATE erasures SET finished_at = $2, counts = $3 WHERE id = $1"


async def finish_erasure_any_account(tx: Connection, erasure_id: str, counts: dict[str, int], now: datetime) -> None:
    await tx.execute(FINISH, erasure_id, now, msgspec.json.encode(counts).decode())


LIST_ERASURES = f"""
SELECT {_COLUMNS} FROM erasures WHERE $1::timestamptz IS NULL OR started_at >= $1 ORDER BY started_at DESC, id DESC
"""  # noqa: S608 - columns above


async def list_erasures_any_account(connection: Connection, since: datetime | None) -> list[Erasure]:
    """Newest first."""
    return [_erasure(row) for row in await connection.fetch(LIST_ERASURES, since)]


# All addresses and private names that are stored now.
LIST_EMAILS = """
SELECT DISTINCT lower(email) AS value FROM orders WHERE email IS NOT NULL
UNION SELECT lower(email) FROM checkouts WHERE email IS NOT NULL
UNION SELECT lower(recipient) FROM mails, unnest(recipients) AS recipient
"""
LIST_NAMES = """
SELECT DISTINCT beneficiary AS value FROM orders WHERE beneficiary_kind = 'person'
UNION SELECT beneficiary_name FROM checkouts WHERE beneficiary_kind = 'person'
UNION SELECT name FROM order_buyers WHERE name IS NOT NULL
"""


async def list_values_any_account(connection: Connection) -> Sequence[tuple[FoundBy, str]]:
    """For comparing them with the hashes of erasures."""
    emails = [(FoundBy.EMAIL, row["value"]) for row in await connection.fetch(LIST_EMAILS)]
    return [*emails, *((FoundBy.NAME, row["value"]) for row in await connection.fetch(LIST_NAMES))]


def _erasure(row: asyncpg.Record) -> Erasure:
    return value_of(Erasure, row, counts=msgspec.json.decode(row["counts"]))
