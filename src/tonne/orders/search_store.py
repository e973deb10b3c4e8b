"""Finds orders of all organisations, for the operator."""

from dataclasses import dataclass
from datetime import datetime

from tonne.db.pool import Connection

SEARCH_ORDERS = """
SELECT id, mode, status, created_at, quantity_grams, total_cost_minor, currency, payment_method, email,
       idempotency_key, account_id, organisation_id
FROM orders
WHERE ($1::text IS NULL OR organisation_id = $1) AND ($2::text IS NULL OR account_id = $2)
  AND ($3::text IS NULL OR mode::text = $3) AND ($4::text IS NULL OR status = $4)
  AND ($5::text IS NULL OR lower(email) = lower($5)) AND ($6::text IS NULL OR idempotency_key = $6)
ORDER BY created_at DESC, id DESC LIMIT $7
"""


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """All that are set must match."""

    organisation_id: str | None = None
    account_id: str | None = None
    mode: str | None = None
    status: str | None = None
    email: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class FoundOrder:
    id: str
    mode: str
    status: str
    created_at: datetime
    quantity_grams: int | None
    total_cost_minor: int | None
    currency: str
    payment_method: str
    email: str | None
    idempotency_key: str
    account_id: str
    organisation_id: str


async def search_orders_any_account(connection: Connection, search: OrderSearch, limit: int) -> list[FoundOrder]:
    """Newest first."""
    rows = await connection.fetch(
        SEARCH_ORDERS,
        search.organisation_id,
        search.account_id,
        search.mode,
        search.status,
        search.email,
        search.idempotency_key,
        limit,
    )
    return [FoundOrder(**row) for row in rows]
