"""SQL of the idempotency keys whose objects have no column for them."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_or_none
from tonne.platform.values.context import Mode

KEY_COLUMNS = "owner_id, mode, route, key_digest"


class KeyTaken(Exception):
    """The key was used before, or by a request at the same time."""


class OwnedKey(Struct, frozen=True):
    """The hash of an idempotency key, with all that it is unique in."""

    owner_id: str
    mode: Mode
    route: str
    key_digest: bytes


class UsedKey(Struct, frozen=True, kw_only=True):
    """A key and the request that used it. `created_id` and `response_box` are added before the commit."""

    id: str
    organisation_id: str
    request_digest: bytes
    key_id: str
    created_at: datetime
    created_id: str | None = None
    response_box: bytes | None = None


CLAIM_KEY = f"""
INSERT INTO idempotent_responses ({KEY_COLUMNS}, id, organisation_id, request_digest, key_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
"""  # noqa: S608 - a constant


async def claim_key(tx: Connection, key: OwnedKey, used: UsedKey) -> None:
    """Waits for a transaction that has claimed the same key. Raises KeyTaken."""
    values = parameters_of(used, "id, organisation_id, request_digest, key_id, created_at")
    if await tx.execute(CLAIM_KEY, *parameters_of(key, KEY_COLUMNS), *values) == "INSERT 0 0":
        raise KeyTaken


KEEP_RESPONSE = """
UPDATE idempotent_responses SET created_id = $5, response_box = $6
WHERE owner_id = $1 AND mode = $2 AND route = $3 AND key_digest = $4
"""


async def keep_response(tx: Connection, key: OwnedKey, created_id: str, sealed: bytes) -> None:
    await tx.execute(KEEP_RESPONSE, *parameters_of(key, KEY_COLUMNS), created_id, sealed)


FIND_KEY = """
SELECT id, organisation_id, request_digest, key_id, created_at, created_id, response_box FROM idempotent_responses
WHERE owner_id = $1 AND mode = $2 AND route = $3 AND key_digest = $4
"""


async def find_used_key(connection: Connection, key: OwnedKey) -> UsedKey | None:
    return value_or_none(UsedKey, await connection.fetchrow(FIND_KEY, *parameters_of(key, KEY_COLUMNS)))


PRUNE_RESPONSES = f"""
UPDATE idempotent_responses SET response_box = NULL WHERE ({KEY_COLUMNS}) IN (
    SELECT {KEY_COLUMNS} FROM idempotent_responses WHERE response_box IS NOT NULL AND created_at < $1
    ORDER BY created_at LIMIT $2)
"""  # noqa: S608 - a constant


async def prune_responses(connection: Connection, before: datetime, limit: int) -> int:
    """The keys stay. Returns how many responses were removed."""
    return int((await connection.execute(PRUNE_RESPONSES, before, limit)).split()[-1])
