"""SQL of `order_mails`: mails about the money of orders that are still to be composed.

A row is added in the transaction that moves the money or the order, so that each mail is sent once.
`money/receipts/mail_orders.py` composes the mail afterwards, because composing takes long and orders are locked here.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, scope_of, value_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import OrderKey


class OrderMailKind(StrEnum):
    RECEIPT = "receipt"
    REFUND = "refund"
    CANCELLED = "cancelled"
    # An order that waits for its client is released by itself soon.
    RELEASE = "release"
    # These two are about an invoice, and belong to one of the orders that it bills.
    INVOICE_RECEIPT = "invoice_receipt"
    INVOICE = "invoice"


class OrderMailRow(NamedTuple):
    """`cause` is the charge, refund or invoice: an order has at most one waiting mail per kind and cause."""

    scope: Scope
    order_id: str
    kind: OrderMailKind
    cause: str
    amount_minor: int


# ON CONFLICT: an operator asks for a mail again that a worker is just composing, perhaps with an address that has been
# corrected meanwhile. The new token takes the lease away from that worker, and the mail is composed once more.
ADD_MAILS = """
INSERT INTO order_mails (account_id, order_id, kind, cause, organisation_id, mode, amount_minor, created_at)
SELECT account_id, order_id, kind, cause, organisation_id, mode, amount_minor, $1
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[])
     AS new (account_id, order_id, kind, cause, organisation_id, mode, amount_minor)
ON CONFLICT (account_id, order_id, kind, cause)
DO UPDATE SET due_at = clock_timestamp(), token = order_mails.token + 1
"""


async def add_mails(tx: Connection, mails: Sequence[OrderMailRow], now: datetime) -> None:
    """Have these mails composed. Call it before events are appended: nothing may be locked after the event stream."""
    if mails:
        names = "scope.account_id, order_id, kind, cause, scope.organisation_id, scope.mode, amount_minor"
        await tx.execute(ADD_MAILS, now, *columns(mails, names))


class DueOrderMail(Struct, frozen=True):
    """A claimed mail. `created_at` is when the money or the order was moved, `token` the fencing token of the lease."""

    scope: Scope
    order_id: str
    kind: OrderMailKind
    cause: str
    amount_minor: int
    created_at: datetime
    token: int

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.order_id)


CLAIM_MAILS = """
WITH due AS MATERIALIZED (
    SELECT account_id, order_id, kind, cause FROM order_mails WHERE due_at <= clock_timestamp()
    ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE order_mails SET due_at = clock_timestamp() + $1::interval, token = token + 1
FROM due
WHERE order_mails.account_id = due.account_id AND order_mails.order_id = due.order_id
  AND order_mails.kind = due.kind AND order_mails.cause = due.cause
RETURNING order_mails.account_id, order_mails.order_id, order_mails.kind, order_mails.cause,
          order_mails.organisation_id, order_mails.mode, order_mails.amount_minor, order_mails.created_at,
          order_mails.token
"""


async def claim_mails(connection: Connection, lease: timedelta, *, limit: int) -> list[DueOrderMail]:
    """Lease due mails, oldest first. One that is not finished is due again when the lease expires.

    By the clock of the database, as in the outbox: workers whose clocks differ agree about a lease.
    """
    rows = await connection.fetch(CLAIM_MAILS, lease, limit)
    found = [value_of(DueOrderMail, row, scope=scope_of(row)) for row in rows]
    return sorted(found, key=lambda each: (each.created_at, each.order_id))


FINISH_MAILS = """
DELETE FROM order_mails USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
    AS done (account_id, order_id, kind, cause, token)
WHERE order_mails.account_id = done.account_id AND order_mails.order_id = done.order_id
  AND order_mails.kind = done.kind AND order_mails.cause = done.cause AND order_mails.token = done.token
RETURNING order_mails.account_id, order_mails.order_id, order_mails.kind, order_mails.cause
"""


async def finish_mails(tx: Connection, mails: Sequence[DueOrderMail]) -> list[DueOrderMail]:
    """Remove the rows whose lease still holds, and return those: only these may be sent."""
    rows = await tx.fetch(FINISH_MAILS, *columns(mails, "scope.account_id, order_id, kind, cause, token"))
    held = {tuple(row) for row in rows}
    return [mail for mail in mails if (mail.scope.account_id, mail.order_id, mail.kind, mail.cause) in held]


LIST_UNMAILED = """
SELECT DISTINCT order_id FROM order_mails WHERE account_id = $1 AND order_id = ANY ($2::text[]) ORDER BY order_id
"""


async def list_unmailed(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> list[str]:
    """Those of the orders about which a mail is still to be composed."""
    return [row["order_id"] for row in await connection.fetch(LIST_UNMAILED, scope.account_id, order_ids)]
