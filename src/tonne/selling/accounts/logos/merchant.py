"""The merchant in whose name a link sells: name and logo in the header of the checkout."""

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.selling.accounts.model import AccountKind


class Merchant(Struct, frozen=True):
    """`logo_path` is None without a logo."""

    name: str
    logo_path: str | None


# A platform sells for its client accounts, each with a name of its own. Other accounts have names such as “Main”.
FIND_MERCHANT = """
SELECT CASE WHEN accounts.kind = $4 THEN accounts.name ELSE organisations.name END AS name, accounts.logo_version
FROM accounts JOIN organisations ON organisations.id = accounts.organisation_id
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND accounts.id = $3
"""


async def find_merchant(connection: Connection, scope: Scope, link_id: str | None) -> Merchant:
    """Without a link, the merchant has no logo: the address of the logo is the link's."""
    row = await connection.fetchrow(
        FIND_MERCHANT, scope.organisation_id, scope.mode, scope.account_id, AccountKind.CLIENT_ACCOUNT
    )
    if row is None:
        raise LookupError(f"no account {scope.account_id}")
    version = row["logo_version"]
    has_logo = version is not None and link_id is not None
    return Merchant(row["name"], f"/offset/{link_id}/logo?v={version}" if has_logo else None)
