"""SQL of `invoices` and `invoice_series`."""

from collections.abc import Sequence
from datetime import date, datetime

import asyncpg

from tonne.base.actor import Actor
from tonne.base.scope import Mode, Scope
from tonne.db.columns import columns
from tonne.db.pool import Connection
from tonne.invoices.model import BilledOrganisation, Invoice, InvoiceStatus
from tonne.orders.model import OrderKey

_INVOICE = """
invoices.account_id, invoices.order_id, invoices.organisation_id, invoices.mode, invoices.number, invoices.reference,
invoices.currency, invoices.total_minor, invoices.status, invoices.issued_on, invoices.due_on, invoices.record,
invoices.mailed_at, invoices.reminded_at, invoices.settled_at, invoices.settled_by
"""


def _invoice(row: asyncpg.Record) -> Invoice:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("account_id"), Mode(values.pop("mode")))
    return Invoice(scope=scope, status=InvoiceStatus(values.pop("status")), **values)


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
    return BilledOrganisation(**row)


HAVE_INVOICES = """
SELECT invoices.order_id FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN invoices ON invoices.account_id = wanted.account_id AND invoices.order_id = wanted.id
"""


async def have_invoices(tx: Connection, keys: Sequence[OrderKey]) -> set[str]:
    """The ids of those orders that have an invoice already."""
    rows = await tx.fetch(HAVE_INVOICES, *columns(keys, "account_id, id"))
    return {row["order_id"] for row in rows}


LIST_WITHOUT_INVOICE = """
SELECT orders.id FROM orders
WHERE orders.mode = 'live' AND orders.status = 'placed' AND orders.payment_method = 'invoice'
  AND orders.next_attempt_at IS NOT NULL AND orders.total_cost_minor > 0
  AND NOT EXISTS (SELECT FROM invoices WHERE invoices.account_id = orders.account_id AND invoices.order_id = orders.id)
ORDER BY orders.created_at, orders.id
"""


async def list_live_orders_without_invoice_any_account(connection: Connection) -> list[str]:
    """The ids of live orders whose invoices are still to be issued, oldest first."""
    return [row["id"] for row in await connection.fetch(LIST_WITHOUT_INVOICE)]


TAKE_NUMBERS = "UPDATE invoice_series SET last_number = last_number + $2 WHERE mode = $1 RETURNING last_number"


async def take_numbers(tx: Connection, mode: Mode, count: int) -> int:
    """The first of the next `count` numbers. A rollback returns them to the series."""
    last_number: int = await tx.fetchval(TAKE_NUMBERS, mode, count)
    return last_number - count + 1


FIND_ISSUE_DATE = "SELECT issued_on FROM invoices WHERE mode = $1 AND number = $2"


async def find_issue_date_any_account(tx: Connection, mode: Mode, number: int) -> date | None:
    day: date | None = await tx.fetchval(FIND_ISSUE_DATE, mode, number)
    return day


INSERT_INVOICE = """
INSERT INTO invoices (account_id, order_id, organisation_id, mode, number, reference, currency, total_minor, status,
                      issued_on, due_on, record, created_at, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13)
"""


async def insert_invoice(tx: Connection, scope: Scope, invoice: Invoice, now: datetime) -> None:
    """Its mail is due at once."""
    await tx.execute(
        INSERT_INVOICE,
        *(scope.account_id, invoice.order_id, scope.organisation_id, scope.mode, invoice.number, invoice.reference),
        *(invoice.currency, invoice.total_minor, invoice.status, invoice.issued_on, invoice.due_on, invoice.record),
        now,
    )


FIND_INVOICE = f"SELECT {_INVOICE} FROM invoices WHERE account_id = $1 AND order_id = $2"  # noqa: S608 - a constant


async def find_invoice(connection: Connection, scope: Scope, order_id: str) -> Invoice | None:
    row = await connection.fetchrow(FIND_INVOICE, scope.account_id, order_id)
    return None if row is None else _invoice(row)


FIND_BY_REFERENCES = f"SELECT {_INVOICE} FROM invoices WHERE reference = ANY ($1::text[])"  # noqa: S608 - a constant


async def find_by_references_any_account(connection: Connection, references: Sequence[str]) -> list[Invoice]:
    return [_invoice(row) for row in await connection.fetch(FIND_BY_REFERENCES, references)]


LIST_INVOICES = f"""
SELECT {_INVOICE} FROM invoices
WHERE mode = $1 AND ($2::text IS NULL OR status = $2) ORDER BY number DESC LIMIT $3
"""  # noqa: S608 - a constant


async def list_invoices_any_account(
    connection: Connection, mode: Mode, status: InvoiceStatus | None, limit: int
) -> list[Invoice]:
    """Newest first."""
    return [_invoice(row) for row in await connection.fetch(LIST_INVOICES, mode, status, limit)]


# A lease: if the worker dies, the invoices are due again when it expires.
CLAIM_DUE = f"""
UPDATE invoices SET next_attempt_at = $2
FROM (SELECT account_id, order_id FROM invoices WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
WHERE invoices.account_id = due.account_id AND invoices.order_id = due.order_id
RETURNING {_INVOICE}
"""  # noqa: S608 - a constant


async def claim_due_any_account(connection: Connection, now: datetime, until: datetime, limit: int) -> list[Invoice]:
    rows = await connection.fetch(CLAIM_DUE, now, until, limit)
    return sorted(map(_invoice, rows), key=lambda invoice: (invoice.scope.mode, invoice.number))


POSTPONE = "UPDATE invoices SET next_attempt_at = $3 WHERE account_id = $1 AND order_id = $2 AND status = 'open'"


async def postpone(connection: Connection, scope: Scope, order_id: str, until: datetime) -> None:
    await connection.execute(POSTPONE, scope.account_id, order_id, until)


WAKE_OPEN = "UPDATE invoices SET next_attempt_at = $2 WHERE account_id = $1 AND status = 'open'"


async def wake_open(tx: Connection, scope: Scope, now: datetime) -> None:
    """Make the open invoices of an account due."""
    await tx.execute(WAKE_OPEN, scope.account_id, now)


# Compare-and-set: if two workers compose the same mail, one of them enqueues it.
MARK_MAILED = """
UPDATE invoices SET mailed_at = $3, next_attempt_at = $4
WHERE account_id = $1 AND order_id = $2 AND status = 'open' AND mailed_at IS NULL RETURNING true
"""


async def mark_mailed(tx: Connection, scope: Scope, order_id: str, now: datetime, next_attempt_at: datetime) -> bool:
    return await tx.fetchval(MARK_MAILED, scope.account_id, order_id, now, next_attempt_at) is True


# A worker has tried to mail it before, so its due time has moved: the organisation had no admin.
MARK_HELD_MAILED = """
UPDATE invoices SET mailed_at = $3, next_attempt_at = $4
WHERE account_id = $1 AND order_id = $2 AND status = 'open' AND mailed_at IS NULL AND next_attempt_at > created_at
RETURNING true
"""


async def mark_held_mailed(
    tx: Connection, scope: Scope, order_id: str, now: datetime, next_attempt_at: datetime
) -> bool:
    """For an invoice that waits for a recipient. False if it does not: then the worker is about to mail it."""
    return await tx.fetchval(MARK_HELD_MAILED, scope.account_id, order_id, now, next_attempt_at) is True


MARK_REMINDED = """
UPDATE invoices SET reminded_at = $3, next_attempt_at = $4
WHERE account_id = $1 AND order_id = $2 AND status = 'open' AND reminded_at IS NULL RETURNING true
"""


async def mark_reminded(tx: Connection, scope: Scope, order_id: str, now: datetime, next_attempt_at: datetime) -> bool:
    return await tx.fetchval(MARK_REMINDED, scope.account_id, order_id, now, next_attempt_at) is True


# Compare-and-set: an invoice is either paid once or cancelled.
CLOSE = """
UPDATE invoices SET status = $5, settled_at = $3, settled_by = $4, next_attempt_at = NULL
WHERE account_id = $1 AND order_id = $2 AND status = 'open' RETURNING true
"""


async def close_invoice(tx: Connection, key: OrderKey, status: InvoiceStatus, *, actor: Actor, now: datetime) -> bool:
    """Set the final status of an open invoice; false if it is not open."""
    return await tx.fetchval(CLOSE, key.account_id, key.id, now, str(actor), status) is True
