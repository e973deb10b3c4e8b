"""SQL of the orders on invoices."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from tonne.money.cards.captured_store import CapturedCharge
from tonne.money.invoices.model import BilledOrder, Invoice
from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import OrderKey


class InvoiceOrderKey(NamedTuple):
    invoice_id: str
    key: OrderKey


_BILLED = """
invoice_id, account_id, order_id, reference, placed_at, quantity_grams, offset_minor, fee_minor, tax_minor, total_minor
"""
INSERT_BILLED = f"""
INSERT INTO invoice_orders ({_BILLED})
SELECT {_BILLED}
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[]) AS billed ({_BILLED})
"""  # noqa: S608 - columns above


async def insert_billed_orders(tx: Connection, orders: Sequence[BilledOrder]) -> None:
    await tx.execute(INSERT_BILLED, *columns(orders, " ".join(_BILLED.split())))


LIST_BILLED = f"""
SELECT {_BILLED}, cancelled FROM invoice_orders WHERE invoice_id = $1 ORDER BY account_id, placed_at, order_id LIMIT $2
"""  # noqa: S608 - columns above


async def list_billed_orders(connection: Connection, invoice: Invoice, limit: int | None = None) -> list[BilledOrder]:
    """By account, oldest first; all of them without a limit."""
    return [BilledOrder(**row) for row in await connection.fetch(LIST_BILLED, invoice.id, limit)]


FIND_BILLED = f"""
SELECT {_BILLED}, cancelled FROM invoice_orders WHERE invoice_id = $1 AND account_id = $2 AND order_id = $3
"""  # noqa: S608 - columns above


async def find_billed_order(connection: Connection, invoice: Invoice, key: OrderKey) -> BilledOrder | None:
    row = await connection.fetchrow(FIND_BILLED, invoice.id, key.account_id, key.id)
    return None if row is None else BilledOrder(**row)


BILLS_OTHERS = "SELECT EXISTS (SELECT FROM invoice_orders WHERE invoice_id = $1 AND account_id <> $2)"


async def bills_others(connection: Connection, scope: Scope, invoice: Invoice) -> bool:
    """Whether an invoice bills orders of other accounts, too."""
    return await connection.fetchval(BILLS_OTHERS, invoice.id, scope.account_id) is True


FIND_KEYS = """
SELECT invoice_id, account_id, order_id FROM invoice_orders
WHERE invoice_id = ANY ($1::text[]) AND ($2 OR NOT cancelled) ORDER BY account_id, order_id
"""


async def find_order_keys_any_account(
    connection: Connection, invoice_ids: Sequence[str], *, with_cancelled: bool = False
) -> list[InvoiceOrderKey]:
    """The orders that these invoices bill, without those that credit notes took off unless `with_cancelled`."""
    rows = await connection.fetch(FIND_KEYS, invoice_ids, with_cancelled)
    return [InvoiceOrderKey(row["invoice_id"], OrderKey(row["account_id"], row["order_id"])) for row in rows]


LIST_UNFULFILLED = """
SELECT billed.account_id, billed.order_id FROM invoice_orders billed
JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
WHERE billed.invoice_id = $1 AND NOT billed.cancelled AND orders.status NOT IN ('paid', 'retiring', 'complete')
ORDER BY billed.account_id, billed.order_id
"""


async def list_unfulfilled_orders(connection: Connection, invoice: Invoice) -> list[OrderKey]:
    """The orders of an open invoice that wait for the payment."""
    rows = await connection.fetch(LIST_UNFULFILLED, invoice.id)
    return [OrderKey(row["account_id"], row["order_id"]) for row in rows]


FIND_SUPPLY = """
SELECT min(orders.supplied_on) AS first_day, max(orders.supplied_on) AS last_day FROM invoice_orders billed
JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
WHERE billed.invoice_id = $1 AND NOT billed.cancelled HAVING bool_and(orders.supplied_on IS NOT NULL)
"""


async def find_supply(connection: Connection, invoice: Invoice) -> tuple[date, date] | None:
    """The first and the last day of supply of its orders; None before all of them are complete."""
    row = await connection.fetchrow(FIND_SUPPLY, invoice.id)
    return None if row is None else (row["first_day"], row["last_day"])


MARK_CANCELLED = """
UPDATE invoice_orders SET cancelled = true
FROM unnest($2::text[], $3::text[]) AS credited (account_id, id)
WHERE invoice_orders.invoice_id = $1 AND invoice_orders.account_id = credited.account_id
  AND invoice_orders.order_id = credited.id
"""


async def mark_cancelled(tx: Connection, invoice: Invoice, keys: Sequence[OrderKey]) -> None:
    """A credit note takes these orders off the invoice."""
    await tx.execute(MARK_CANCELLED, invoice.id, *columns(keys, "account_id, id"))


LIST_DUE_SHARES = """
SELECT billed.account_id, billed.order_id,
       billed.total_minor - coalesce((
           SELECT sum(credited.total_minor)::bigint
           FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
           WHERE note.invoice_id = billed.invoice_id AND credited.account_id = billed.account_id
             AND credited.order_id = billed.order_id AND note.taken_back_by IS NULL), 0)::bigint AS due_minor
FROM invoice_orders billed WHERE billed.invoice_id = $1 AND NOT billed.cancelled
ORDER BY billed.account_id, billed.order_id
"""


async def list_due_shares(connection: Connection, invoice: Invoice) -> dict[OrderKey, int]:
    """What is due of an open invoice for each order that is still on it. The shares sum to what is due in all."""
    rows = await connection.fetch(LIST_DUE_SHARES, invoice.id)
    return {OrderKey(row["account_id"], row["order_id"]): row["due_minor"] for row in rows}


# What credit notes took off before the invoice was settled was never paid. Those of refunds are issued afterwards.
LIST_PAID_SHARES = """
SELECT billed.account_id, billed.order_id,
       billed.total_minor - coalesce((
           SELECT sum(credited.total_minor)::bigint
           FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
           WHERE note.invoice_id = billed.invoice_id AND credited.account_id = billed.account_id
             AND credited.order_id = billed.order_id AND note.refund_id IS NULL AND note.taken_back_by IS NULL
             AND note.created_at <= invoices.settled_at), 0)::bigint AS paid_minor
FROM charge_invoices document JOIN invoices ON invoices.id = document.invoice_id
JOIN invoice_orders billed ON billed.invoice_id = invoices.id
WHERE document.account_id = $1 AND document.charge_id = $2 AND invoices.status = 'paid'
  AND ($3::text IS NULL OR billed.order_id = $3)
ORDER BY billed.account_id, billed.order_id
"""


async def list_paid_shares(
    connection: Connection, charge: CapturedCharge, order_id: str | None = None
) -> dict[OrderKey, int]:
    """What a charge has paid for each order of its invoices, or for one of them. All shares sum to what was settled."""
    rows = await connection.fetch(LIST_PAID_SHARES, charge.scope.account_id, charge.id, order_id)
    return {OrderKey(row["account_id"], row["order_id"]): row["paid_minor"] for row in rows}


FIND_SUPPLIED_ON = """
SELECT CASE WHEN bool_and(orders.supplied_on IS NOT NULL) THEN max(orders.supplied_on) END
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
"""


async def find_supplied_on(connection: Connection, keys: Sequence[OrderKey]) -> date | None:
    """The day on which the last of these orders was supplied. None if one was not yet."""
    day: date | None = await connection.fetchval(FIND_SUPPLIED_ON, *columns(keys, "account_id, id"))
    return day
