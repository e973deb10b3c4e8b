"""The logos of beneficiaries on certificates, kept as they were when the certificate was issued."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection, optional
from tonne.selling.orders.model import BeneficiaryKind, Order

# Sorted, so that transactions that keep the same new logos cannot deadlock.
KEEP_LOGOS = """
WITH logos AS (
    SELECT id AS account_id, sha256(logo) AS sha256, logo_media_type, logo
    FROM accounts WHERE id = ANY ($1::text[]) AND logo IS NOT NULL
), new AS (
    INSERT INTO certificate_logos (sha256, media_type, content)
    SELECT DISTINCT ON (sha256) sha256, logo_media_type, logo FROM logos
    WHERE NOT EXISTS (SELECT FROM certificate_logos kept WHERE kept.sha256 = logos.sha256)
    ORDER BY sha256
    ON CONFLICT DO NOTHING
)
SELECT account_id, encode(sha256, 'hex') AS sha256 FROM logos
"""


async def keep_logos(tx: Connection, orders: Sequence[Order]) -> dict[str, str]:
    """The hashes of the logos for certificates of these orders, by order id. Stores copies of the logos.

    Only certificates in the account's own name get its logo: a person or another organisation does not.
    """
    own = [order for order in orders if has_own_name(order)]
    if not own:
        return {}
    rows = await tx.fetch(KEEP_LOGOS, sorted({order.scope.account_id for order in own}))
    logos: dict[str, str] = {row["account_id"]: row["sha256"] for row in rows}
    return {order.id: logos[order.scope.account_id] for order in own if order.scope.account_id in logos}


def has_own_name(order: Order) -> bool:
    is_organisation = order.beneficiary_kind is BeneficiaryKind.ORGANISATION
    return is_organisation and order.beneficiary == order.account_beneficiary


FIND_LOGO = "SELECT content FROM certificate_logos WHERE sha256 = $1"


async def find_certificate_logo(connection: Connection, sha256: str) -> bytes | None:
    return optional(bytes, await connection.fetchval(FIND_LOGO, bytes.fromhex(sha256)))
