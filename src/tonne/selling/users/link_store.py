"""SQL for the links in mails to users."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_of, value_or_none
from tonne.selling.users.model import Role

INVITATION = "invitation"
PASSWORD_RESET = "password_reset"  # noqa: S105 - the kind of a link


class UserLink(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    email: str
    organisation_id: str | None = None
    role: Role | None = None
    created_by: str
    created_at: datetime
    expires_at: datetime


_LINK = "id, kind, email, organisation_id, role, created_by, created_at, expires_at"
INSERT_LINK = f"""
INSERT INTO user_links (token_hash, {_LINK}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""  # noqa: S608 - columns above


async def insert_link(tx: Connection, link: UserLink, token_hash: bytes) -> None:
    await tx.execute(INSERT_LINK, token_hash, *parameters_of(link, _LINK))


LOCK_LINK = f"""
SELECT {_LINK} FROM user_links
WHERE token_hash = $1 AND kind = $2 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $3
FOR NO KEY UPDATE
"""  # noqa: S608 - columns above


async def lock_link(tx: Connection, token_hash: bytes, kind: str, now: datetime) -> UserLink | None:
    """A link that can still be used."""
    return value_or_none(UserLink, await tx.fetchrow(LOCK_LINK, token_hash, kind, now))


LOCK_INVITATIONS = f"""
SELECT {_LINK} FROM user_links
WHERE email = $1 AND kind = 'invitation' AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2
ORDER BY created_at, id FOR NO KEY UPDATE
"""  # noqa: S608 - columns above


async def lock_invitations_any_account(tx: Connection, email: str, now: datetime) -> list[UserLink]:
    """Invitations of all organisations: the person has proved that the address is theirs."""
    return [value_of(UserLink, row) for row in await tx.fetch(LOCK_INVITATIONS, email, now)]


USE_LINKS = """
UPDATE user_links SET used_at = $4
WHERE email = $1 AND kind = $2 AND organisation_id IS NOT DISTINCT FROM $3 AND used_at IS NULL AND revoked_at IS NULL
"""


async def use_links(tx: Connection, link: UserLink, now: datetime) -> None:
    """This link and all others for the same purpose are used up."""
    await tx.execute(USE_LINKS, link.email, link.kind, link.organisation_id, now)


COUNT_RESETS = """
SELECT count(*) FROM user_links
WHERE email = (SELECT email FROM users WHERE id = $1) AND kind = 'password_reset' AND created_at > $2
"""


async def count_password_links(connection: Connection, user_id: str, after: datetime) -> int:
    return int(await connection.fetchval(COUNT_RESETS, user_id, after))


REVOKE_RESETS = """
UPDATE user_links SET revoked_at = $2
WHERE email = (SELECT email FROM users WHERE id = $1) AND kind = 'password_reset'
  AND used_at IS NULL AND revoked_at IS NULL
"""


async def revoke_password_links(tx: Connection, user_id: str, now: datetime) -> None:
    await tx.execute(REVOKE_RESETS, user_id, now)


LIST_INVITATIONS = f"""
SELECT {_LINK} FROM user_links
WHERE organisation_id = $1 AND kind = 'invitation' AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2
ORDER BY created_at DESC, id
"""  # noqa: S608 - columns above


async def list_invitations(connection: Connection, organisation_id: str, now: datetime) -> list[UserLink]:
    return [value_of(UserLink, row) for row in await connection.fetch(LIST_INVITATIONS, organisation_id, now)]


REVOKE_INVITATION = """
UPDATE user_links SET revoked_at = $3
WHERE organisation_id = $1 AND id = $2 AND kind = 'invitation' AND used_at IS NULL AND revoked_at IS NULL
RETURNING email
"""


async def revoke_invitation(tx: Connection, organisation_id: str, link_id: str, now: datetime) -> bool:
    return await tx.fetchval(REVOKE_INVITATION, organisation_id, link_id, now) is not None


PRUNE_LINKS = "DELETE FROM user_links WHERE id IN (SELECT id FROM user_links WHERE expires_at < $1 LIMIT $2)"


async def prune_links(connection: Connection, expired_before: datetime, limit: int) -> int:
    return int((await connection.execute(PRUNE_LINKS, expired_before, limit)).split()[1])
