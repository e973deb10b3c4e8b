"""Personal tokens, with which operators use the command line as themselves.

A token has 256 random bits, of which only the hash is stored. Whoever has it is the user, with the rights that the user
has at that moment.
"""

import re
import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id
from tonne.selling.users.errors import PersonalTokenNotFound
from tonne.selling.users.model import User
from tonne.selling.users.sign_in import hash_token
from tonne.selling.users.store import find_user_by_id

MAX_DAYS = 90
_PREFIX = "tonne_pat_"
_TOKEN = re.compile(rf"{_PREFIX}[A-Za-z0-9_-]{{43}}")


class PersonalToken(Struct, frozen=True):
    id: str
    name: str
    created_at: datetime
    expires_at: datetime


class TokenOwner(NamedTuple):
    # Of the token.
    id: str
    user: User


INSERT_PERSONAL = """
INSERT INTO personal_tokens (id, user_id, token_hash, name, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
"""


async def make_token(tx: Connection, user: User, name: str, days: int, *, by: By) -> str:
    """Returns the token, which is shown once."""
    token, token_id = f"{_PREFIX}{secrets.token_urlsafe(32)}", new_id("pat")
    expires_at = by.at + timedelta(days=days)
    await tx.execute(INSERT_PERSONAL, token_id, user.id, hash_token(token), name, by.at, expires_at)
    # Not the name: entries of the audit log can never be changed.
    after = {"expires_at": expires_at.isoformat()}
    await audit.record(tx, None, "user.token_created", by=by, subject_id=user.id, after=after, token_id=token_id)
    return token


REVOKE_PERSONAL = """
UPDATE personal_tokens SET revoked_at = $3 WHERE user_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING true
"""


async def revoke_personal_token(tx: Connection, user: User, token_id: str, *, by: By) -> None:
    """Raises PersonalTokenNotFound."""
    if await tx.fetchval(REVOKE_PERSONAL, user.id, token_id, by.at) is not True:
        raise PersonalTokenNotFound
    await audit.record(tx, None, "user.token_revoked", by=by, subject_id=user.id, token_id=token_id)


LIST_PERSONAL = """
SELECT id, name, created_at, expires_at FROM personal_tokens
WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > $2 ORDER BY created_at, id
"""


async def list_tokens(connection: Connection, user_id: str, now: datetime) -> list[PersonalToken]:
    """Those that can be used."""
    return [value_of(PersonalToken, row) for row in await connection.fetch(LIST_PERSONAL, user_id, now)]


FIND_PERSONAL = """
SELECT id, user_id FROM personal_tokens WHERE token_hash = $1 AND revoked_at IS NULL AND expires_at > $2
"""


async def find_by_token(connection: Connection, token: str, now: datetime) -> TokenOwner | None:
    """Whose token it is; None if it expired or was revoked, or the user is no operator any more."""
    row = await connection.fetchrow(FIND_PERSONAL, hash_token(token), now) if _TOKEN.fullmatch(token) else None
    user = None if row is None else await find_user_by_id(connection, row["user_id"])
    if row is None or user is None or not user.is_operator or user.disabled_at is not None:
        return None
    return TokenOwner(row["id"], user)
