"""SQL of the logos of accounts."""

from hashlib import sha256

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope


class Logo(Struct, frozen=True):
    media_type: str
    content: bytes

    @property
    def version(self) -> str:
        """As it is stored."""
        return sha256(self.content).hexdigest()[:12]


SET_LOGO = """
UPDATE accounts SET logo = $3, logo_media_type = $4, logo_version = left(encode(sha256($3), 'hex'), 12)
WHERE organisation_id = $1 AND id = $2
"""


async def set_logo(tx: Connection, scope: Scope, logo: Logo | None) -> None:
    """An account has one logo: on its page, its certificates and at checkout. None removes it."""
    content, media_type = (None, None) if logo is None else (logo.content, logo.media_type)
    await tx.execute(SET_LOGO, scope.organisation_id, scope.account_id, content, media_type)


FIND_LOGO = """
SELECT logo_media_type, logo FROM accounts WHERE organisation_id = $1 AND id = $2 AND logo IS NOT NULL
"""


async def find_logo(connection: Connection, scope: Scope) -> Logo | None:
    """The logo of the account, whether or not its Sustainability page is public."""
    row = await connection.fetchrow(FIND_LOGO, scope.organisation_id, scope.account_id)
    return None if row is None else Logo(row["logo_media_type"], row["logo"])


FIND_ORGANISATION_LOGO = """
SELECT id, logo_version FROM accounts
WHERE organisation_id = $1 AND mode = $2 AND kind = 'account' AND logo_version IS NOT NULL
ORDER BY created_at, id LIMIT 1
"""


async def find_organisation_logo(connection: Connection, scope: Scope) -> tuple[str, str] | None:
    """The oldest account of the organisation, in this mode, that has a logo, and the version of the logo."""
    row = await connection.fetchrow(FIND_ORGANISATION_LOGO, scope.organisation_id, scope.mode)
    return None if row is None else (row["id"], row["logo_version"])


FIND_LOGO_BY_VERSION = "SELECT logo_media_type, logo FROM accounts WHERE id = $1 AND logo_version = $2"


async def find_logo_any_account(connection: Connection, account_id: str, version: str) -> Logo | None:
    """The logo at a public address, which contains its version."""
    row = await connection.fetchrow(FIND_LOGO_BY_VERSION, account_id, version)
    return None if row is None else Logo(row["logo_media_type"], row["logo"])
