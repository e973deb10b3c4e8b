"""SQL of `invoices`."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.money.invoices.model import BilledOrganisation, DifferenceKind, Invoice, InvoiceStatus
from tonne.money.invoices.tax_documents import insert_documents
from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import By, Mode, Scope, new_id
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.accounts.tax.tax_profile import find_tax_profile
from tonne.selling.accounts.tax.vat_checks import find_vat_check
from tonne.selling.orders.model import OrderKey

INVOICE_COLUMNS = """
invoices.id, document.kind, invoices.organisation_id, invoices.mode, invoices.number, invoices.reference,
invoices.currency, invoices.total_minor, document.tax_minor, invoices.credited_minor, invoices.settled_minor,
invoices.billing, invoices.payment_method, invoices.order_count, invoices.status, invoices.issued_on, invoices.due_on,
document.record, invoices.mailed_at, invoices.reminded_at, invoices.settled_at, invoices.settled_by,
invoices.settled_by_hand, invoices.written_off_at, invoices.difference_minor, invoices.is_prepaid,
invoices.replaced_by, document.number AS number_in_force, document.reference AS reference_in_force,
document.issued_on AS issued_in_force, document.total_minor AS total_in_force,
(SELECT each.order_id FROM invoice_orders each WHERE each.invoice_id = invoices.id LIMIT 1) AS first_order_id
"""
# What INVOICE_COLUMNS are read from.
INVOICES = "invoices JOIN tax_documents document ON document.id = coalesce(invoices.replaced_by, invoices.id)"


def read_invoice(row: asyncpg.Record) -> Invoice:
    return value_of(Invoice, row)


FIND_ORGANISATION = """
SELECT organisation.name, organisation.address,
       array(SELECT admin.email FROM organisation_admins admin
             WHERE admin.organisation_id = organisation.id ORDER BY admin.email) AS admins
FROM organisations organisation WHERE organisation.id = $1
"""


async def find_billed_organisation(connection: Connection, organisation_id: str) -> BilledOrganisation:
    row = await connection.fetchrow(FIND_ORGANISATION, organisation_id)
    if row is None:
        raise LookupError(f"no organisation {organisation_id}")
    tax = await find_tax_profile(connection, organisation_id)
    return BilledOrganisation(**row, tax=tax, vat_check=await find_vat_check(connection, tax.tax_id))


FIND_CLIENT_NAMES = "SELECT id, name FROM accounts WHERE id = ANY ($1::text[]) AND kind = 'client_account'"


async def find_client_names_any_account(connection: Connection, account_ids: Sequence[str]) -> dict[str, str]:
    """The names of those of these accounts that are client accounts, by id."""
    return {row["id"]: row["name"] for row in await connection.fetch(FIND_CLIENT_NAMES, account_ids)}


HAVE_INVOICES = """
SELECT billed.order_id FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN invoice_orders billed ON billed.account_id = keys.account_id AND billed.order_id = keys.id
"""


async def have_invoices(tx: Connection, keys: Sequence[OrderKey]) -> set[str]:
    """The ids of those orders that have an invoice already."""
    rows = await tx.fetch(HAVE_INVOICES, *columns(keys, "account_id, id"))
    return {row["order_id"] for row in rows}


LIST_WITHOUT_INVOICE = """
SELECT orders.id FROM orders
WHERE orders.mode = 'live' AND orders.status = 'placed' AND orders.payment_method = 'invoice'
  AND orders.next_attempt_at IS NOT NULL AND orders.total_cost_minor > 0
  AND NOT EXISTS (SELECT FROM invoice_orders billed
                  WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
ORDER BY orders.created_at, orders.id
"""


async def list_live_orders_without_invoice_any_account(connection: Connection) -> list[str]:
    """The ids of live orders whose invoices are still to be issued, oldest first."""
    return [row["id"] for row in await connection.fetch(LIST_WITHOUT_INVOICE)]


_INSERTED = (
    "id, organisation_id, mode, number, reference, currency, total_minor, billing, payment_method, order_count, "
    "issued_on, due_on, status, settled_minor, settled_at, settled_by, is_prepaid"
)
INSERT_INVOICES = f"""
INSERT INTO invoices ({_INSERTED}, created_at, next_attempt_at)
SELECT {_INSERTED}, $1::timestamptz, CASE WHEN status = 'open' AND mode = 'test' THEN $1::timestamptz END
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::text[],
            $10::text[], $11::integer[], $12::date[], $13::date[], $14::text[], $15::bigint[], $16::timestamptz[],
            $17::text[], $18::boolean[]) AS issued ({_INSERTED})
"""  # noqa: S608 - columns above


async def insert_invoices(tx: Connection, invoices: Sequence[Invoice], now: datetime) -> None:
    """Mails of live open invoices are due when their files are stored. Nobody waits for a test invoice but its orders.

    The caller adds their orders.
    """
    await insert_documents(tx, invoices, now)
    await tx.execute(INSERT_INVOICES, now, *columns(invoices, _INSERTED))


# Not one that was mailed meanwhile, or that is paid and not mailed any more. Who has paid before gets another mail.
WAKE_UNMAILED = """
UPDATE invoices SET next_attempt_at = $2
WHERE id = $1 AND next_attempt_at IS NULL AND mailed_at IS NULL AND NOT is_prepaid
  AND (status = 'open' OR status = 'paid' AND payment_method = 'card')
"""


async def wake_unmailed_any_account(tx: Connection, invoice_id: str, now: datetime) -> None:
    """Its mail is due: the file that it refers to is stored."""
    await tx.execute(WAKE_UNMAILED, invoice_id, now)


FIND_INVOICE = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES} JOIN invoice_orders billed ON billed.invoice_id = invoices.id
WHERE billed.account_id = $1 AND billed.order_id = $2
ORDER BY billed.cancelled, invoices.created_at DESC, invoices.number DESC LIMIT 1
"""  # noqa: S608 - a constant


async def find_invoice(connection: Connection, scope: Scope, order_id: str) -> Invoice | None:
    """The invoice of an order."""
    return optional(read_invoice, await connection.fetchrow(FIND_INVOICE, scope.account_id, order_id))


FIND_INVOICES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES} WHERE invoices.id = ANY ($1::text[]) ORDER BY invoices.id
"""  # noqa: S608 - a constant


async def find_invoices_any_account(connection: Connection, ids: Sequence[str]) -> list[Invoice]:
    return [read_invoice(row) for row in await connection.fetch(FIND_INVOICES, ids)]


LOCK_INVOICES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES} WHERE invoices.id = ANY ($1::text[]) ORDER BY invoices.id
FOR NO KEY UPDATE OF invoices
"""  # noqa: S608 - a constant


async def lock_invoices_any_account(tx: Connection, ids: Sequence[str]) -> list[Invoice]:
    """Lock invoices until the transaction ends, and return them as they are then. Lock their orders before."""
    return [read_invoice(row) for row in await tx.fetch(LOCK_INVOICES, ids)]


LIST_STREAMS = "SELECT DISTINCT organisation_id, mode FROM invoices WHERE id = ANY ($1::text[])"


async def list_streams_any_account(connection: Connection, ids: Sequence[str]) -> list[Stream]:
    """The streams that events of the orders of these invoices are appended to."""
    return [Stream(row["organisation_id"], Mode(row["mode"])) for row in await connection.fetch(LIST_STREAMS, ids)]


LIST_INVOICES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES}
WHERE invoices.mode = $1 AND NOT invoices.is_prepaid AND ($2::text IS NULL OR invoices.status = $2)
ORDER BY invoices.number DESC LIMIT $3
"""  # noqa: S608 - a constant


async def list_invoices_any_account(
    connection: Connection, mode: Mode, status: InvoiceStatus | None, limit: int
) -> list[Invoice]:
    """Newest first."""
    return [read_invoice(row) for row in await connection.fetch(LIST_INVOICES, mode, status, limit)]


LIST_NUMBERED = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES}
WHERE invoices.mode = $1 AND NOT invoices.is_prepaid AND ($2::bigint IS NULL OR invoices.number < $2)
ORDER BY invoices.number DESC LIMIT $3
"""  # noqa: S608 - a constant


async def list_numbered_any_account(
    connection: Connection, mode: Mode, before: int | None, limit: int
) -> list[Invoice]:
    """Newest first, with numbers below `before` if it is given."""
    return [read_invoice(row) for row in await connection.fetch(LIST_NUMBERED, mode, before, limit)]


# A lease: if the worker dies, the invoices are due again when it expires.
CLAIM_DUE = f"""
UPDATE invoices SET next_attempt_at = $2
FROM (SELECT id, replaced_by FROM invoices WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
JOIN tax_documents document ON document.id = coalesce(due.replaced_by, due.id)
WHERE invoices.id = due.id
RETURNING {INVOICE_COLUMNS}
"""  # noqa: S608 - a constant


async def claim_due(connection: Connection, now: datetime, until: datetime, limit: int) -> list[Invoice]:
    rows = await connection.fetch(CLAIM_DUE, now, until, limit)
    return sorted(map(read_invoice, rows), key=lambda invoice: (invoice.mode, invoice.number))


POSTPONE = """
UPDATE invoices SET next_attempt_at = $2
WHERE id = $1 AND (status = 'open' OR status = 'paid' AND payment_method = 'card')
"""


async def postpone(connection: Connection, invoice: Invoice, until: datetime | None) -> None:
    """None: no worker looks at it until something changes."""
    await connection.execute(POSTPONE, invoice.id, until)


SETTLES_ITSELF = """
SELECT invoices.mode = 'test' AND invoices.payment_method = 'invoice' AND invoices.billing <> 'collected'
       AND NOT EXISTS (
    SELECT FROM invoice_orders billed
    JOIN accounts ON accounts.organisation_id = invoices.organisation_id AND accounts.id = billed.account_id
    WHERE billed.invoice_id = invoices.id AND NOT accounts.auto_advance)
FROM invoices WHERE invoices.id = $1
"""


async def settles_itself(connection: Connection, invoice: Invoice) -> bool:
    """Whether it is a test invoice of accounts whose orders advance automatically."""
    return await connection.fetchval(SETTLES_ITSELF, invoice.id) is True


ADVANCES = "SELECT auto_advance FROM accounts WHERE organisation_id = $1 AND id = $2"


async def advances_by_itself(connection: Connection, scope: Scope) -> bool:
    """False only for a test account whose orders wait for the test helpers."""
    return await connection.fetchval(ADVANCES, scope.organisation_id, scope.account_id) is True


LIST_OPEN_BY_CARD = """
SELECT id FROM invoices WHERE organisation_id = $1 AND mode = $2 AND status = 'open' AND payment_method = 'card'
"""


async def list_open_by_card(connection: Connection, scope: Scope) -> list[str]:
    """The ids of open invoices that a card pays, of all accounts of the organisation."""
    return [row["id"] for row in await connection.fetch(LIST_OPEN_BY_CARD, scope.organisation_id, scope.mode)]


FIND_RECEIPT_EMAIL = "SELECT receipt_email FROM accounts WHERE organisation_id = $1 AND id = $2"


async def find_receipt_email(connection: Connection, scope: Scope) -> str | None:
    return optional(str, await connection.fetchval(FIND_RECEIPT_EMAIL, scope.organisation_id, scope.account_id))


SET_PAYMENT_METHOD = """
UPDATE invoices SET payment_method = $2, next_attempt_at = coalesce($3, next_attempt_at)
WHERE id = ANY ($1::text[]) AND status = 'open' AND payment_method <> $2
"""


async def set_payment_method_any_account(
    tx: Connection, ids: Sequence[str], method: PaymentMethod, follow_up_at: datetime | None = None
) -> None:
    """How locked open invoices are to be paid now."""
    await tx.execute(SET_PAYMENT_METHOD, list(ids), method, follow_up_at)


HAS_FULFILLED = """
SELECT EXISTS (
    SELECT FROM invoice_orders billed
    JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
    WHERE billed.invoice_id = $1 AND NOT billed.cancelled AND orders.status IN ('paid', 'retiring', 'complete'))
"""


async def has_fulfilled_orders(connection: Connection, invoice: Invoice) -> bool:
    """Whether an order of an open invoice was fulfilled on credit."""
    return await connection.fetchval(HAS_FULFILLED, invoice.id) is True


WAKE_OPEN = """
UPDATE invoices SET next_attempt_at = $2
FROM invoice_orders billed
WHERE billed.account_id = $1 AND billed.invoice_id = invoices.id AND invoices.status = 'open'
"""


async def wake_open(tx: Connection, scope: Scope, now: datetime) -> None:
    """Make the open invoices of an account due."""
    await tx.execute(WAKE_OPEN, scope.account_id, now)


# Compare-and-set: if two workers compose the same mail, one of them enqueues it. A card may pay it before it is mailed.
MARK_MAILED = """
UPDATE invoices SET mailed_at = $2, next_attempt_at = $3
WHERE id = $1 AND (status = 'open' OR status = 'paid' AND payment_method = 'card') AND mailed_at IS NULL RETURNING true
"""


async def mark_mailed(tx: Connection, invoice: Invoice, now: datetime, next_attempt_at: datetime | None) -> bool:
    return await tx.fetchval(MARK_MAILED, invoice.id, now, next_attempt_at) is True


# A worker has tried to mail it before, so its due time has moved: the organisation had no admin.
MARK_HELD_MAILED = """
UPDATE invoices SET mailed_at = $2, next_attempt_at = $3
WHERE id = $1 AND status = 'open' AND mailed_at IS NULL AND next_attempt_at > created_at RETURNING true
"""


async def mark_held_mailed(tx: Connection, invoice: Invoice, now: datetime, next_attempt_at: datetime | None) -> bool:
    """For an invoice that waits for a recipient. False if it does not: then the worker is about to mail it."""
    return await tx.fetchval(MARK_HELD_MAILED, invoice.id, now, next_attempt_at) is True


MARK_REMINDED = """
UPDATE invoices SET reminded_at = $2, next_attempt_at = $3
WHERE id = $1 AND status = 'open' AND reminded_at IS NULL AND written_off_at IS NULL RETURNING true
"""


async def mark_reminded(tx: Connection, invoice: Invoice, now: datetime, next_attempt_at: datetime | None) -> bool:
    return await tx.fetchval(MARK_REMINDED, invoice.id, now, next_attempt_at) is True


# Compare-and-set: an invoice is either paid once or cancelled. One that a card has paid is still to be mailed.
MARK_PAID = """
UPDATE invoices SET status = 'paid', settled_at = $2, settled_by = $3,
                    next_attempt_at = CASE WHEN payment_method = 'card' AND mailed_at IS NULL THEN next_attempt_at END,
                    settled_minor = total_minor - credited_minor, settled_by_hand = $4
WHERE id = $1 AND status = 'open' RETURNING true
"""


async def mark_paid(tx: Connection, invoice: Invoice, *, by_hand: bool, by: By) -> bool:
    """False if it is not open. `by_hand`: the money is not in a bank transfer, or not yet."""
    return await tx.fetchval(MARK_PAID, invoice.id, by.at, str(by.actor), by_hand) is True


MARK_BY_HAND = "UPDATE invoices SET settled_by_hand = true WHERE id = $1"


async def mark_settled_by_hand(tx: Connection, invoice: Invoice) -> None:
    """A transfer that paid it was assigned elsewhere."""
    await tx.execute(MARK_BY_HAND, invoice.id)


# Unless it is cancelled, a worker looks whether part payments now cover what is left.
CREDIT = """
UPDATE invoices SET credited_minor = credited_minor + $2,
    status = CASE WHEN status = 'open' AND $5 THEN 'cancelled' ELSE status END,
    settled_at = CASE WHEN status = 'open' AND $5 THEN $3 ELSE settled_at END,
    settled_by = CASE WHEN status = 'open' AND $5 THEN $4 ELSE settled_by END,
    next_attempt_at = CASE WHEN status = 'open' AND NOT $5 THEN $3 WHEN status = 'paid' THEN next_attempt_at END
WHERE id = $1 AND credited_minor + $2 <= total_minor RETURNING status
"""


async def add_credit(
    tx: Connection, invoice: Invoice, amount_minor: int, *, cancels: bool, by: By
) -> InvoiceStatus | None:
    """Returns the new status of the locked invoice; None if the credit would exceed its total."""
    status = await tx.fetchval(CREDIT, invoice.id, amount_minor, by.at, str(by.actor), cancels)
    return None if status is None else InvoiceStatus(status)


MARK_REPLACED = "UPDATE invoices SET replaced_by = $2 WHERE id = $1"


async def mark_replaced(tx: Connection, invoice: Invoice, document_id: str) -> None:
    """Of a locked invoice: another document is in force."""
    await tx.execute(MARK_REPLACED, invoice.id, document_id)


REDUCE_CREDIT = "UPDATE invoices SET credited_minor = credited_minor - $2 WHERE id = $1"


async def reduce_credit(tx: Connection, invoice: Invoice, amount_minor: int) -> None:
    """A credit note of a locked invoice was taken back."""
    await tx.execute(REDUCE_CREDIT, invoice.id, amount_minor)


BOOK_DIFFERENCE = """
WITH booked AS (
    INSERT INTO invoice_differences (id, invoice_id, kind, amount_minor, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6) RETURNING invoice_id, amount_minor
)
UPDATE invoices SET difference_minor = difference_minor + booked.amount_minor, settled_by_hand = true
FROM booked WHERE invoices.id = booked.invoice_id
"""


async def insert_difference(
    tx: Connection, invoice: Invoice, kind: DifferenceKind, amount_minor: int, *, by: By
) -> None:
    """The invoice is paid."""
    await tx.execute(BOOK_DIFFERENCE, new_id("dif"), invoice.id, kind, amount_minor, by.at, str(by.actor))
