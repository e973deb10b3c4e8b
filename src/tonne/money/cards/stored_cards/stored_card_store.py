"""SQL of `account_cards`: the stored card of each account."""

from datetime import datetime

from tonne.money.cards.gateways.card import CardDetails
from tonne.platform.db.database import Connection, optional, parameters_of
from tonne.platform.values.context import Scope

STORE_CARD = """
INSERT INTO account_cards (account_id, organisation_id, mode, gateway, customer, method, brand, last_four, expires,
                           fingerprint, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (account_id) DO UPDATE
SET gateway = excluded.gateway, customer = excluded.customer, method = excluded.method, brand = excluded.brand,
    last_four = excluded.last_four, expires = excluded.expires,
    fingerprint = excluded.fingerprint, created_at = excluded.created_at
"""


async def store_card(tx: Connection, scope: Scope, card: CardDetails, *, gateway: str, now: datetime) -> None:
    details = parameters_of(card, "customer, method, brand, last_four, expires, fingerprint")
    await tx.execute(STORE_CARD, scope.account_id, scope.organisation_id, scope.mode, gateway, *details, now)


FIND_CARD = """
SELECT customer, method, brand, last_four, expires, fingerprint FROM account_cards WHERE account_id = $1
"""


async def find_card(connection: Connection, scope: Scope) -> CardDetails | None:
    row = await connection.fetchrow(FIND_CARD, scope.account_id)
    return None if row is None else CardDetails(**row)


REMOVE_CARD = "DELETE FROM account_cards WHERE account_id = $1 RETURNING last_four"


async def remove_card(tx: Connection, scope: Scope) -> str | None:
    """Returns the last four digits of the removed card, None if there was none."""
    return optional(str, await tx.fetchval(REMOVE_CARD, scope.account_id))
