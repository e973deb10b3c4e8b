"""The merchant in whose name a link sells: name and logo in the header of the checkout."""

from msgspec import Struct

from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Scope
from tonne.selling.accounts.model import AccountKind


class Merchant(Struct, frozen=True):
    """`logo_path` is None without a logo."""

    name: str
    logo_path: str | None


# A platform sells for its client accounts, each with a name of its own. Other accounts have names such as “Main”.
FIND_MERCHANT = """
SELECT CASE WHEN accounts.kind = $4 THEN accounts.name ELSE organisations.name END AS name,
       coalesce(accounts.logo_version, left(encode(sha256(sustainability_pages.logo), 'hex'), 12)) AS logo_version
FROM accounts JOIN organisations ON organisations.id = accounts.organisation_id
LEFT JOIN sustainability_pages ON sustainability_pages.account_id = accounts.id
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


FIND_LOGO = """
SELECT coalesce(account.logo_media_type, page.logo_media_type) AS logo_media_type,
       coalesce(account.logo, page.logo) AS logo,
       coalesce(account.logo_version, left(encode(sha256(page.logo), 'hex'), 12)) AS version
FROM accounts account LEFT JOIN sustainability_pages page ON page.account_id = account.id
WHERE account.id = $1 AND coalesce(account.logo, page.logo) IS NOT NULL
"""


class MerchantLogo(Struct, frozen=True):
    media_type: str
    content: bytes
    version: str


async def find_merchant_logo(connection: Connection, scope: Scope) -> MerchantLogo | None:
    """The logo of the account, whether or not its Sustainability page is public."""
    row = await connection.fetchrow(FIND_LOGO, scope.account_id)
    return None if row is None else MerchantLogo(row["logo_media_type"], row["logo"], row["version"])
