"""SQL for users, memberships, recovery codes and sessions."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.platform.db.database import Connection, optional, parameters_of, value_of, value_or_none
from tonne.selling.users.model import Member, Membership, Role, User, UserSession, normal_email

INSERT_USER = """
INSERT INTO users (id, email, name, password_hash, is_operator, may_approve, is_demo, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (email) DO NOTHING RETURNING true
"""


async def insert_user(tx: Connection, user: User, password_hash: str | None) -> bool:
    """False if the address is taken."""
    rights = (user.is_operator, user.may_approve, user.is_demo)
    return (
        await tx.fetchval(INSERT_USER, user.id, user.email, user.name, password_hash, *rights, user.created_at) is True
    )


_USER = """
id, email, name, is_operator, may_approve, password_hash IS NOT NULL AS has_password, totp_enabled, created_at,
disabled_at, is_demo, EXISTS (SELECT FROM passkeys WHERE passkeys.user_id = users.id) AS has_passkey
"""
FIND_USER = f"SELECT {_USER}, password_hash FROM users WHERE email = $1"  # noqa: S608 - columns above


async def find_user_by_email(connection: Connection, email: str) -> tuple[User, str | None] | None:
    """The user and the hash of the password."""
    row = await connection.fetchrow(FIND_USER, normal_email(email))
    return None if row is None else (value_of(User, row), row["password_hash"])


FIND_USER_BY_ID = f"SELECT {_USER} FROM users WHERE id = $1"  # noqa: S608 - columns above


async def find_user_by_id(connection: Connection, user_id: str) -> User | None:
    return value_or_none(User, await connection.fetchrow(FIND_USER_BY_ID, user_id))


LIST_USERS = f"SELECT {_USER} FROM users ORDER BY email"  # noqa: S608 - columns above


async def list_users(connection: Connection) -> list[User]:
    return [value_of(User, row) for row in await connection.fetch(LIST_USERS)]


STORE_HASH = "UPDATE users SET password_hash = $2 WHERE id = $1"


async def set_password_hash(tx: Connection, user_id: str, password_hash: str) -> None:
    await tx.execute(STORE_HASH, user_id, password_hash)


SET_MAY_APPROVE = "UPDATE users SET may_approve = $2 WHERE id = $1"


async def set_may_approve(tx: Connection, user_id: str, *, may_approve: bool) -> None:
    await tx.execute(SET_MAY_APPROVE, user_id, may_approve)


SET_DISABLED = "UPDATE users SET disabled_at = $2 WHERE id = $1"


async def set_disabled(tx: Connection, user_id: str, disabled_at: datetime | None) -> None:
    await tx.execute(SET_DISABLED, user_id, disabled_at)


LOCK_TOTP = "SELECT totp_box, totp_enabled, totp_step FROM users WHERE id = $1 FOR NO KEY UPDATE"


async def lock_totp(tx: Connection, user_id: str) -> asyncpg.Record:
    """Two requests with the same code are decided one after the other: the second is refused."""
    [row] = await tx.fetch(LOCK_TOTP, user_id)
    return row


SET_TOTP = "UPDATE users SET totp_box = $2, totp_enabled = $3, totp_step = $4 WHERE id = $1"


async def set_totp(tx: Connection, user_id: str, box: bytes | None, *, enabled: bool, step: int) -> None:
    await tx.execute(SET_TOTP, user_id, box, enabled, step)


HAS_SECOND_FACTOR = """
SELECT totp_enabled OR EXISTS (SELECT FROM passkeys WHERE passkeys.user_id = users.id) FROM users WHERE id = $1
"""


async def has_second_factor(tx: Connection, user_id: str) -> bool:
    return await tx.fetchval(HAS_SECOND_FACTOR, user_id) is True


DELETE_RECOVERY_CODES = "DELETE FROM recovery_codes WHERE user_id = $1"


async def delete_recovery_codes(tx: Connection, user_id: str) -> None:
    await tx.execute(DELETE_RECOVERY_CODES, user_id)


INSERT_RECOVERY_CODES = "INSERT INTO recovery_codes (user_id, code_hash) SELECT $1, unnest($2::bytea[])"


async def insert_recovery_codes(tx: Connection, user_id: str, hashes: Sequence[bytes]) -> None:
    await tx.execute(INSERT_RECOVERY_CODES, user_id, hashes)


USE_RECOVERY_CODE = """
UPDATE recovery_codes SET used_at = $3 WHERE user_id = $1 AND code_hash = $2 AND used_at IS NULL RETURNING true
"""


async def use_recovery_code(tx: Connection, user_id: str, code_hash: bytes, now: datetime) -> bool:
    return await tx.fetchval(USE_RECOVERY_CODE, user_id, code_hash, now) is True


COUNT_RECOVERY_CODES = "SELECT count(*) FROM recovery_codes WHERE user_id = $1 AND used_at IS NULL"


async def count_recovery_codes(connection: Connection, user_id: str) -> int:
    return int(await connection.fetchval(COUNT_RECOVERY_CODES, user_id))


DELETE_USER = """
WITH sessions AS (DELETE FROM user_sessions WHERE user_id = $1),
     codes AS (DELETE FROM recovery_codes WHERE user_id = $1),
     keys AS (DELETE FROM passkeys WHERE user_id = $1),
     identities AS (DELETE FROM user_identities WHERE user_id = $1),
     tokens AS (DELETE FROM personal_tokens WHERE user_id = $1),
     links AS (DELETE FROM user_links WHERE email = $2)
SELECT
"""
DELETE_USER_ROW = "DELETE FROM users WHERE id = $1"


async def delete_user(tx: Connection, user_id: str, email: str) -> None:
    """With all ways to sign in, sessions and links. The user is no member of an organisation any more."""
    await tx.execute(DELETE_USER, user_id, email)
    await tx.execute(DELETE_USER_ROW, user_id)


SET_ROLE = """
INSERT INTO memberships (organisation_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organisation_id, user_id) DO UPDATE SET role = excluded.role
"""


async def set_role(tx: Connection, organisation_id: str, user_id: str, role: Role, now: datetime) -> None:
    await tx.execute(SET_ROLE, organisation_id, user_id, role, now)


REMOVE_MEMBER = "DELETE FROM memberships WHERE organisation_id = $1 AND user_id = $2"


async def remove_member(tx: Connection, organisation_id: str, user_id: str) -> None:
    await tx.execute(REMOVE_MEMBER, organisation_id, user_id)


FIND_ROLE = "SELECT role FROM memberships WHERE organisation_id = $1 AND user_id = $2"


async def find_role(connection: Connection, organisation_id: str, user_id: str) -> Role | None:
    role = await connection.fetchval(FIND_ROLE, organisation_id, user_id)
    return None if role is None else Role(role)


COUNT_OWNERS = """
SELECT count(*) FROM memberships JOIN users ON users.id = memberships.user_id
WHERE organisation_id = $1 AND role = 'owner' AND users.disabled_at IS NULL AND user_id <> $2
"""


async def count_other_owners(tx: Connection, organisation_id: str, user_id: str) -> int:
    """The caller has locked the organisation."""
    return int(await tx.fetchval(COUNT_OWNERS, organisation_id, user_id))


LIST_MEMBERSHIPS = """
SELECT organisation_id, organisations.name AS organisation_name, role
FROM memberships JOIN organisations ON organisations.id = organisation_id
WHERE user_id = $1 ORDER BY organisations.name, organisation_id
"""


async def list_memberships(connection: Connection, user_id: str) -> list[Membership]:
    rows = await connection.fetch(LIST_MEMBERSHIPS, user_id)
    return [value_of(Membership, row) for row in rows]


LIST_MEMBERS = """
SELECT users.id AS user_id, email, users.name, role, memberships.created_at,
       (SELECT max(last_seen_at) FROM user_sessions WHERE user_id = users.id) AS last_seen_at,
       totp_enabled OR EXISTS (SELECT FROM passkeys WHERE passkeys.user_id = users.id) AS has_second_factor
FROM memberships JOIN users ON users.id = user_id
WHERE organisation_id = $1 AND disabled_at IS NULL ORDER BY email
"""


async def list_members(connection: Connection, organisation_id: str) -> list[Member]:
    rows = await connection.fetch(LIST_MEMBERS, organisation_id)
    return [value_of(Member, row) for row in rows]


class UserName(NamedTuple):
    name: str
    # Whether they are a member of the organisation that was asked for.
    is_member: bool


FIND_USER_NAMES = """
SELECT users.id, users.name, memberships.user_id IS NOT NULL AS is_member
FROM users LEFT JOIN memberships ON memberships.user_id = users.id AND memberships.organisation_id = $1
WHERE users.id = ANY ($2::text[])
"""


async def find_user_names(connection: Connection, organisation_id: str, user_ids: Iterable[str]) -> dict[str, UserName]:
    """The names of users by id, and whether they are members of this organisation."""
    rows = await connection.fetch(FIND_USER_NAMES, organisation_id, sorted(set(user_ids)))
    return {row["id"]: UserName(row["name"], row["is_member"]) for row in rows}


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
users.id, email, name, is_operator, may_approve, password_hash IS NOT NULL AS has_password, totp_enabled,
users.created_at, disabled_at, is_demo, EXISTS (SELECT FROM passkeys WHERE passkeys.user_id = users.id) AS has_passkey
"""
FIND_SESSION = f"""
SELECT {_SESSION} FROM user_sessions JOIN users ON users.id = user_id
WHERE token_hash = $1 AND revoked_at IS NULL AND expires_at > $2 AND last_seen_at > $3 AND disabled_at IS NULL
"""  # noqa: S608 - columns above


async def find_session(
    connection: Connection, token_hash: bytes, now: datetime, seen_after: datetime
) -> UserSession | None:
    return optional(_session, await connection.fetchrow(FIND_SESSION, token_hash, now, seen_after))


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


REVOKE_ONE_SESSION = "UPDATE user_sessions SET revoked_at = $2 WHERE token_hash = $1 AND revoked_at IS NULL"


async def revoke_token(tx: Connection, token_hash: bytes, now: datetime) -> None:
    await tx.execute(REVOKE_ONE_SESSION, token_hash, now)


REVOKE_SESSIONS = """
WITH devices AS (UPDATE users SET devices_since = $2 WHERE id = $1),
     tokens AS (UPDATE personal_tokens SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL)
UPDATE user_sessions SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL AND id <> $3
"""


async def revoke_sessions(tx: Connection, user_id: str, now: datetime, *, but: str = "") -> None:
    """All personal tokens of the user, and all sessions but the one with the id `but`. No browser is known any more."""
    await tx.execute(REVOKE_SESSIONS, user_id, now, but)


IS_KNOWN = """
SELECT true FROM users
WHERE id = $1 AND email = $2 AND disabled_at IS NULL AND (devices_since IS NULL OR devices_since < $3)
"""


async def is_known(connection: Connection, user_id: str, email: str, since: datetime) -> bool:
    """Whether a browser in which the user signed in at this time is still known, and the address is theirs."""
    return await connection.fetchval(IS_KNOWN, user_id, normal_email(email), since) is True


PRUNE_SESSIONS = """
DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE expires_at < $1 LIMIT $2)
"""


async def prune_sessions(connection: Connection, expired_before: datetime, limit: int) -> int:
    return int((await connection.execute(PRUNE_SESSIONS, expired_before, limit)).split()[1])


def _session(row: asyncpg.Record) -> UserSession:
    own = {"id": row["session_id"], "created_at": row["session_created_at"]}
    return value_of(UserSession, {**row, **own}, user=value_of(User, row))
