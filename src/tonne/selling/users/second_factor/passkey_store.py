"""SQL for passkeys and their challenges."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection


class Passkey(Struct, frozen=True, kw_only=True):
    id: str
    user_id: str
    credential_id: bytes
    public_key: bytes
    sign_count: int
    domain: str
    name: str
    is_synced: bool
    created_at: datetime
    last_used_at: datetime | None = None


INSERT_PASSKEY = """
INSERT INTO passkeys (id, user_id, credential_id, public_key, sign_count, domain, name, is_synced, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (credential_id) DO NOTHING RETURNING true
"""


async def insert_passkey(tx: Connection, passkey: Passkey) -> bool:
    """False if it is registered already."""
    values = (passkey.id, passkey.user_id, passkey.credential_id, passkey.public_key, passkey.sign_count)
    more = (passkey.domain, passkey.name, passkey.is_synced, passkey.created_at)
    return await tx.fetchval(INSERT_PASSKEY, *values, *more) is True


_PASSKEY = "id, user_id, credential_id, public_key, sign_count, domain, name, is_synced, created_at, last_used_at"
LIST_PASSKEYS = f"SELECT {_PASSKEY} FROM passkeys WHERE user_id = $1 ORDER BY created_at, id"  # noqa: S608 - columns above


async def list_passkeys(connection: Connection, user_id: str) -> list[Passkey]:
    return [Passkey(**row) for row in await connection.fetch(LIST_PASSKEYS, user_id)]


LOCK_PASSKEY = f"SELECT {_PASSKEY} FROM passkeys WHERE credential_id = $1 FOR NO KEY UPDATE"  # noqa: S608 - columns above


async def lock_passkey(tx: Connection, credential_id: bytes) -> Passkey | None:
    """Two uses of one passkey are decided one after the other, so that the sign count is compared with the last."""
    row = await tx.fetchrow(LOCK_PASSKEY, credential_id)
    return None if row is None else Passkey(**row)


NOTE_PASSKEY_USED = "UPDATE passkeys SET sign_count = $2, is_synced = $3, last_used_at = $4 WHERE id = $1"


async def note_passkey_used(
    tx: Connection, passkey_id: str, sign_count: int, now: datetime, *, is_synced: bool
) -> None:
    await tx.execute(NOTE_PASSKEY_USED, passkey_id, sign_count, is_synced, now)


RENAME_PASSKEY = "UPDATE passkeys SET name = $3 WHERE user_id = $1 AND id = $2"


async def rename_passkey(tx: Connection, user_id: str, passkey_id: str, name: str) -> None:
    await tx.execute(RENAME_PASSKEY, user_id, passkey_id, name)


DELETE_PASSKEY = "DELETE FROM passkeys WHERE user_id = $1 AND id = $2"


async def delete_passkey(tx: Connection, user_id: str, passkey_id: str) -> None:
    await tx.execute(DELETE_PASSKEY, user_id, passkey_id)


DELETE_PASSKEYS = "DELETE FROM passkeys WHERE user_id = $1 RETURNING id"


async def delete_passkeys(tx: Connection, user_id: str) -> list[str]:
    return [row["id"] for row in await tx.fetch(DELETE_PASSKEYS, user_id)]


STORE_CHALLENGE = """
INSERT INTO passkey_challenges (binding, challenge, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (binding) DO UPDATE SET challenge = excluded.challenge, expires_at = excluded.expires_at
"""


async def store_challenge(connection: Connection, binding: bytes, challenge: bytes, expires_at: datetime) -> None:
    await connection.execute(STORE_CHALLENGE, binding, challenge, expires_at)


USE_CHALLENGE = "DELETE FROM passkey_challenges WHERE binding = $1 RETURNING challenge, expires_at"


async def use_challenge(connection: Connection, binding: bytes, now: datetime) -> bytes | None:
    """Works once. The caller commits before the answer is verified: a wrong answer uses it up, too."""
    row = await connection.fetchrow(USE_CHALLENGE, binding)
    return None if row is None or row["expires_at"] <= now else row["challenge"]


PRUNE_CHALLENGES = """
DELETE FROM passkey_challenges
WHERE binding IN (SELECT binding FROM passkey_challenges WHERE expires_at < $1 LIMIT $2)
"""


async def prune_challenges(connection: Connection, now: datetime, limit: int) -> int:
    return int((await connection.execute(PRUNE_CHALLENGES, now, limit)).split()[1])
