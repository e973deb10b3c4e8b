"""SQL for the accounts at a sign-in provider that belong to users."""

from datetime import datetime

from tonne.platform.db.pool import Connection

USE_IDENTITY = """
UPDATE user_identities SET last_used_at = $3 WHERE issuer = $1 AND subject = $2 RETURNING user_id
"""


async def use_identity(tx: Connection, issuer: str, subject: str, now: datetime) -> str | None:
    """The id of the user to whom it belongs."""
    user_id: str | None = await tx.fetchval(USE_IDENTITY, issuer, subject, now)
    return user_id


LINK_IDENTITY = """
INSERT INTO user_identities (issuer, subject, user_id, created_at, last_used_at) VALUES ($1, $2, $3, $4, $4)
ON CONFLICT DO NOTHING RETURNING true
"""


async def link_identity(tx: Connection, issuer: str, subject: str, user_id: str, now: datetime) -> bool:
    """False if the user has another account at this provider."""
    return await tx.fetchval(LINK_IDENTITY, issuer, subject, user_id, now) is True


UNLINK_IDENTITIES = "DELETE FROM user_identities WHERE user_id = $1 RETURNING issuer"


async def unlink_identities(tx: Connection, user_id: str) -> int:
    return len(await tx.fetch(UNLINK_IDENTITIES, user_id))
