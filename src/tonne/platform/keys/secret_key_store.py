"""SQL of the keys that secrets are sealed with."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection

LOCK_KEYS = "SELECT pg_advisory_xact_lock(hashtext('tonne secret keys'))"


async def lock_keys(tx: Connection) -> None:
    """Serialises processes that start with different keys, and commands that change the recorded keys."""
    await tx.execute(LOCK_KEYS)


LIST_KEYS = "SELECT id FROM secret_keys ORDER BY id"


async def list_key_ids(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(LIST_KEYS)]


RECORD_KEY = "INSERT INTO secret_keys (id) VALUES ($1) ON CONFLICT (id) DO NOTHING"


async def record_key(tx: Connection, key_id: str) -> None:
    await tx.execute(RECORD_KEY, key_id)


FORGET_KEYS = "DELETE FROM secret_keys WHERE NOT (id = ANY ($1)) RETURNING id"


async def forget_keys_except(tx: Connection, kept: Sequence[str]) -> list[str]:
    """The ids of the keys that were removed."""
    return sorted(row["id"] for row in await tx.fetch(FORGET_KEYS, list(kept)))
