"""SQL of orders that a card has paid, and whose tax document is still to be issued.

A row is deleted with the insertion of the document, or when the order is cancelled before. Its lock decides between
the two, and is taken before a refund of the order is credited.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.values.context import Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order, OrderKey


class HeldBy(StrEnum):
    """Why a document is not issued yet."""

    SELLER_DETAILS_MISSING = "seller_details_missing"
    BUYER_DETAILS_MISSING = "buyer_details_missing"
    VAT_CHECK_MISSING = "vat_check_missing"
    EXCHANGE_RATE_MISSING = "exchange_rate_missing"


class DueDocument(Struct, frozen=True):
    account_id: str
    order_id: str
    paid_at: datetime
    held_by: HeldBy | None = None

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.account_id, self.order_id)


# An order that was billed before it was paid has its document.
REQUEST_DOCUMENTS = """
INSERT INTO due_documents (account_id, order_id, organisation_id, mode, paid_at, next_attempt_at)
SELECT paid.account_id, paid.order_id, paid.organisation_id, paid.mode::mode, $1, $1
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS paid (account_id, order_id, organisation_id, mode)
WHERE NOT EXISTS (SELECT FROM invoice_orders billed
                  WHERE billed.account_id = paid.account_id AND billed.order_id = paid.order_id)
ON CONFLICT DO NOTHING
"""


async def request_documents(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Have a worker issue the documents of those of these paid orders that a card has paid alone."""
    charged = [order for order in orders if order.payment_method is PaymentMethod.CARD and order.amount_due_minor]
    if charged:
        keys = columns(charged, "scope.account_id, id, scope.organisation_id, scope.mode")
        await tx.execute(REQUEST_DOCUMENTS, now, *keys)


CLAIM_DUE = """
SELECT account_id, order_id, paid_at, held_by FROM due_documents
WHERE next_attempt_at <= $1 ORDER BY next_attempt_at, order_id LIMIT $2 FOR UPDATE SKIP LOCKED
"""


async def claim_due_documents(tx: Connection, now: datetime, limit: int) -> list[DueDocument]:
    return [value_of(DueDocument, row) for row in await tx.fetch(CLAIM_DUE, now, limit)]


# Waits for a worker that is issuing one of them.
CLAIM_OF_ORDERS = """
SELECT due.account_id, due.order_id, due.paid_at, due.held_by
FROM unnest($2::text[], $3::text[]) AS keys (account_id, id)
JOIN due_documents due ON due.account_id = keys.account_id AND due.order_id = keys.id
WHERE due.next_attempt_at <= $1 ORDER BY due.next_attempt_at, due.order_id LIMIT $4 FOR UPDATE OF due
"""


async def claim_documents_of(tx: Connection, keys: Sequence[OrderKey], now: datetime, limit: int) -> list[DueDocument]:
    rows = await tx.fetch(CLAIM_OF_ORDERS, now, *columns(keys, "account_id, id"), limit)
    return [value_of(DueDocument, row) for row in rows]


POSTPONE_DOCUMENTS = """
UPDATE due_documents SET next_attempt_at = $1, held_by = held.reason
FROM unnest($2::text[], $3::text[], $4::text[]) AS held (account_id, order_id, reason)
WHERE due_documents.account_id = held.account_id AND due_documents.order_id = held.order_id
"""


async def postpone_documents(tx: Connection, held: Sequence[DueDocument], until: datetime) -> None:
    """Try again then. Each has the reason why it is held back, or none if it failed."""
    await tx.execute(POSTPONE_DOCUMENTS, until, *columns(held, "account_id, order_id, held_by"))


REMOVE_DOCUMENTS = """
DELETE FROM due_documents USING unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE due_documents.account_id = keys.account_id AND due_documents.order_id = keys.id
RETURNING due_documents.order_id
"""


async def remove_due_documents(tx: Connection, keys: Sequence[OrderKey]) -> set[str]:
    """The ids of those orders that still had no document."""
    return {row["order_id"] for row in await tx.fetch(REMOVE_DOCUMENTS, *columns(keys, "account_id, id"))}


LOCK_DUE = "SELECT true FROM due_documents WHERE account_id = $1 AND order_id = $2 FOR UPDATE"


async def lock_due_document(tx: Connection, key: OrderKey) -> bool:
    """Whether the document of an order is still to be issued: then the worker that issues it credits refunds."""
    return await tx.fetchval(LOCK_DUE, *key) is True


FIND_DUE = "SELECT account_id, order_id, paid_at, held_by FROM due_documents WHERE account_id = $1 AND order_id = $2"


async def find_due_document(connection: Connection, scope: Scope, order_id: str) -> DueDocument | None:
    row = await connection.fetchrow(FIND_DUE, scope.account_id, order_id)
    return optional(lambda found: value_of(DueDocument, found), row)


LIST_WITHOUT_DOCUMENT = "SELECT order_id FROM due_documents WHERE account_id = $1 AND order_id = ANY ($2::text[])"


async def list_without_document(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> list[str]:
    """Those of these orders that are paid, and whose document is still to be issued."""
    return [row["order_id"] for row in await connection.fetch(LIST_WITHOUT_DOCUMENT, scope.account_id, order_ids)]
