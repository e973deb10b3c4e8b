"""The checkout at which an order was placed, and what the customer agreed to."""

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

FIND_CHECKOUT_OF_ORDER = """
SELECT checkouts.id, checkouts.created_at, checkouts.expires_at, checkouts.email, checkouts.buyer_kind,
       checkouts.consent_version, checkouts.consent_language, checkouts.consented_at, consent_texts.text,
       buyer.taxed_in
FROM checkouts LEFT JOIN consent_texts ON consent_texts.version = checkouts.consent_version
LEFT JOIN order_buyers buyer ON buyer.account_id = checkouts.account_id AND buyer.order_id = checkouts.order_id
WHERE checkouts.account_id = $1 AND checkouts.order_id = $2
"""


async def checkout_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    row = await connection.fetchrow(FIND_CHECKOUT_OF_ORDER, scope.account_id, order_id)
    if row is None:
        return []
    text = f"opened for {row['email'] or 'an erased address'}, expires at {row['expires_at']:%Y-%m-%d %H:%M}"
    if row["taxed_in"] is not None:
        text += f"; the customer lives in {row['taxed_in']}, whose tax the order has"
    entries = [TimelineEntry(at=row["created_at"], kind="checkout", text=text, subject_id=row["id"])]
    if row["buyer_kind"] is not None:
        entries.append(TimelineEntry(at=row["consented_at"], kind="consent", text=_consent(row), subject_id=row["id"]))
    return entries


def _consent(row: asyncpg.Record) -> str:
    if row["consent_version"] is None:
        return f"the customer ordered as a {row['buyer_kind']}: no right of withdrawal"
    text = " ".join((row["text"] or "").split())
    return (
        f"the customer ordered as a {row['buyer_kind']} and agreed to text {row['consent_version']} "
        f"({row['consent_language']}): “{text}”"
    )
