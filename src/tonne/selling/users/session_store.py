"""SQL for sessions."""

from datetime import datetime

import asyncpg

from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.selling.users.model import User, UserSession

INSERT_SESSION = """
INSERT INTO user_sessions
    (token_hash, id, user_id, is_complete, is_strong, created_at, last_seen_at, expires_at, address, agent)
VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $8, $9)
"""


async def insert_session(tx: Connection, session: UserSession, token_hash: bytes) -> None:
    names = "id, user.id, is_complete, is_strong, created_at, expires_at, address, agent"
    await tx.execute(INSERT_SESSION, token_hash, *parameters_of(session, names))


_SESSION = """
user_sessions.id AS session_id, is_complete, is_strong, user_sessions.created_at AS session_created_at, last_seen_at,
expires_at, address, agent,
users.id, email, name, is_operator, password_hash IS NOT NULL AS has_password, totp_enabled, users.created_at,
disabled_at, is_demo, EXISTS (SELECT FROM passkeys WHERE passkeys.user_id = users.id) AS has_passkey
"""
FIND_SESSION = f"""
SELECT {_SESSION} FROM user_sessions JOIN users ON users.id = user_id
WHERE token_hash = $1 AND revoked_at IS NULL AND expires_at > $2 AND last_seen_at > $3 AND disabled_at IS NULL
"""  # noqa: S608 - columns above


async def find_session(
    connection: Connection, token_hash: bytes, now: datetime, seen_after: datetime
) -> UserSession | None:
    row = await connection.fetchrow(FIND_SESSION, token_hash, now, seen_after)
    return None if row is None else _session(row)


LIST_SESSIONS = f"""
SELECT {_SESSION} FROM user_sessions JOIN users ON users.id = user_id
WHERE user_id = $1 AND is_complete AND revoked_at IS NULL AND expires_at > $2 AND last_seen_at > $3
ORDER BY last_seen_at DESC, user_sessions.id
"""  # noqa: S608 - columns above


async def list_sessions(connection: Connection, user_id: str, now: datetime, seen_after: datetime) -> list[UserSession]:
    return [_session(row) for row in await connection.fetch(LIST_SESSIONS, user_id, now, seen_after)]


NOTE_SEEN = "UPDATE user_sessions SET last_seen_at = $2 WHERE id = $1"


async def note_seen(connection: Connection, session_id: str, now: datetime) -> None:
    await connection.execute(NOTE_SEEN, session_id, now)


NOTE_STRONG = "UPDATE user_sessions SET is_strong = true WHERE id = $1"


async def note_strong(tx: Connection, session_id: str) -> None:
    """The user has just given a second factor in this session."""
    await tx.execute(NOTE_STRONG, session_id)


REVOKE_SESSION = """
UPDATE user_sessions SET revoked_at = $3 WHERE user_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING true
"""


async def revoke_session(tx: Connection, user_id: str, session_id: str, now: datetime) -> bool:
    return await tx.fetchval(REVOKE_SESSION, user_id, session_id, now) is True


REVOKE_SESSIONS = """
UPDATE user_sessions SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL AND id <> $3
"""


async def revoke_sessions(tx: Connection, user_id: str, now: datetime, *, but: str = "") -> None:
    """All sessions of the user, except the one with the id `but`."""
    await tx.execute(REVOKE_SESSIONS, user_id, now, but)


PRUNE_SESSIONS = """
DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE expires_at < $1 LIMIT $2)
"""


async def prune_sessions(connection: Connection, expired_before: datetime, limit: int) -> int:
    return int((await connection.execute(PRUNE_SESSIONS, expired_before, limit)).split()[1])


def _session(row: asyncpg.Record) -> UserSession:
    own = {"id": row["session_id"], "created_at": row["session_created_at"]}
    return value_of(UserSession, {**row, **own}, user=value_of(User, row))
