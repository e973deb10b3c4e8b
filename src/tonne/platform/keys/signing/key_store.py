"""SQL of the operator's signing keys."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, optional, value_of, value_or_none
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord

COLUMNS = "id, purpose, created_at, retired_at, revoked_from, public"


class StoredKey(Struct, frozen=True):
    """`sealed` is None if the private key is not in the database."""

    record: KeyRecord
    sealed: bytes | None


FIND_CURRENT = f"SELECT {COLUMNS}, private_box FROM signing_keys WHERE purpose = $1 AND retired_at IS NULL"  # noqa: S608 - a constant


async def find_current_key(connection: Connection, purpose: KeyPurpose) -> StoredKey | None:
    row = await connection.fetchrow(FIND_CURRENT, purpose)
    return None if row is None else StoredKey(value_of(KeyRecord, row), row["private_box"])


LIST_KEYS = f"SELECT {COLUMNS} FROM signing_keys WHERE purpose = $1 ORDER BY created_at, id"  # noqa: S608 - a constant


async def list_signing_keys(connection: Connection, purpose: KeyPurpose) -> list[KeyRecord]:
    """The retired ones too, the oldest first."""
    return [value_of(KeyRecord, row) for row in await connection.fetch(LIST_KEYS, purpose)]


INSERT_KEY = """
INSERT INTO signing_keys (id, purpose, created_at, public, private_box) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING
"""


async def insert_signing_key(tx: Connection, record: KeyRecord, sealed: bytes | None) -> bool:
    """False if there is a current key for this purpose: another process was faster."""
    values = (record.id, record.purpose, record.created_at, record.public, sealed)
    return await tx.execute(INSERT_KEY, *values) == "INSERT 0 1"


FIND_BY_PUBLIC = f"SELECT {COLUMNS} FROM signing_keys WHERE public = $1"  # noqa: S608 - a constant


async def find_key_by_public(connection: Connection, public: str) -> KeyRecord | None:
    return value_or_none(KeyRecord, await connection.fetchrow(FIND_BY_PUBLIC, public))


FIND_KEY = f"SELECT {COLUMNS} FROM signing_keys WHERE id = $1"  # noqa: S608 - a constant


async def find_signing_key(connection: Connection, key_id: str) -> KeyRecord | None:
    return value_or_none(KeyRecord, await connection.fetchrow(FIND_KEY, key_id))


LOCK_PURPOSE = "SELECT pg_advisory_xact_lock(hashtext('tonne signing keys'), hashtext($1))"


async def lock_purpose(tx: Connection, purpose: KeyPurpose) -> None:
    """Serialises processes and commands that replace the current key."""
    await tx.execute(LOCK_PURPOSE, purpose)


# The private part is destroyed: nothing needs it any more, and nobody can steal it from a backup.
RETIRE_CURRENT = """
UPDATE signing_keys SET retired_at = $2, private_box = NULL WHERE purpose = $1 AND retired_at IS NULL RETURNING id
"""


async def retire_current_key(tx: Connection, purpose: KeyPurpose, at: datetime) -> str | None:
    """Its id; None if there was none."""
    return optional(str, await tx.fetchval(RETIRE_CURRENT, purpose, at))


REINSTATE = "UPDATE signing_keys SET retired_at = NULL WHERE id = $1"


async def reinstate_key(tx: Connection, key_id: str) -> None:
    """Only for a key outside of the database: the settings name it again."""
    await tx.execute(REINSTATE, key_id)


REVOKE = """
UPDATE signing_keys SET revoked_from = $2, retired_at = LEAST(retired_at, $3), private_box = NULL WHERE id = $1
"""


async def revoke_signing_key(tx: Connection, key_id: str, from_: datetime, now: datetime) -> None:
    """It signs nothing from `now` on."""
    await tx.execute(REVOKE, key_id, from_, now)
