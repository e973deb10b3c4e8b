"""Whether an e-mail address belongs to somebody who signs in."""

from tonne.platform.db.database import Connection
from tonne.selling.accounts.person_store import AddressUse

LIST_USES = """
SELECT email FROM users
WHERE email = $2 AND ($1::text IS NULL OR EXISTS (
    SELECT FROM memberships WHERE memberships.organisation_id = $1 AND memberships.user_id = users.id))
UNION
SELECT email FROM user_links
WHERE email = $2 AND kind = 'invitation' AND ($1::text IS NULL OR organisation_id = $1)
  AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
"""


async def list_user_uses(connection: Connection, organisation_id: str | None, email: str) -> list[AddressUse]:
    """`email` is in lower case. Without an organisation, every organisation is searched."""
    rows = await connection.fetch(LIST_USES, organisation_id, email)
    return [
        AddressUse("signs in to the dashboard, or is invited to", f"tonne user delete {row['email']}") for row in rows
    ]
