"""SQL of `write_offs`: invoices that are no longer expected to be paid."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import asyncpg
from msgspec import Struct

from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection, optional, value_of
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Actor, By, Mode
from tonne.selling.users.approvals import ApprovalKind, Subject


class WriteOffState(StrEnum):
    # A second person must approve it. Nothing is booked yet.
    APPROVAL = "approval"
    BOOKED = "booked"
    # Reinstated before it was approved.
    WITHDRAWN = "withdrawn"
    # Reinstated after it was booked.
    UNDONE = "undone"


class WriteOff(Struct, frozen=True, kw_only=True):
    """`left_minor` is what is still open of the invoice; what a booked one has recovered is the rest of its amount."""

    id: str
    invoice_id: str
    invoice_reference: str
    organisation_id: str
    mode: Mode
    currency: str
    amount_minor: int
    left_minor: int
    reason: str
    releases_credit: bool
    state: WriteOffState
    requested_at: datetime
    requested_by: str
    approved_by: str | None
    booked_at: datetime | None
    undone_at: datetime | None
    undone_by: str | None
    undo_reason: str | None

    @property
    def amount(self) -> str:
        return f"{format_money(self.amount_minor, self.currency)} {self.currency}"

    @property
    def subject(self) -> Subject:
        """What is to be approved: what is left now."""
        return Subject(
            kind=ApprovalKind.WRITE_OFF,
            id=self.id,
            organisation_id=self.organisation_id,
            mode=self.mode,
            requested_by=self.requested_by,
            terms=(str(self.left_minor), self.currency, self.invoice_reference, self.reason),
        )

    @property
    def recovered_minor(self) -> int:
        """What was paid or credited since it was booked."""
        return max(self.amount_minor - self.left_minor, 0) if self.state is WriteOffState.BOOKED else 0


_WRITE_OFF = """
written.id, written.invoice_id, invoices.reference AS invoice_reference, invoices.organisation_id, invoices.mode,
       invoices.currency, written.amount_minor,
       CASE WHEN invoices.status = 'open'
            THEN invoices.total_minor - invoices.credited_minor
                 - coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                             WHERE paid.invoice_id = invoices.id), 0)::bigint
            ELSE 0 END AS left_minor,
       written.reason, written.releases_credit, written.state, written.requested_at, written.requested_by,
       written.approved_by, written.booked_at, written.undone_at, written.undone_by, written.undo_reason
FROM write_offs written JOIN invoices ON invoices.id = written.invoice_id
"""


def _write_off(row: asyncpg.Record) -> WriteOff:
    return value_of(WriteOff, row)


INSERT_WRITE_OFF = """
INSERT INTO write_offs (id, invoice_id, amount_minor, reason, releases_credit, state, requested_at, requested_by)
VALUES ($1, $2, $3, $4, $5, 'approval', $6, $7)
"""


async def insert_write_off_any_account(
    tx: Connection,
    write_off_id: str,
    invoice: Invoice,
    amount_minor: int,
    *,
    reason: str,
    releases_credit: bool,
    by: By,
) -> None:
    """It waits for approval until it is booked. The invoice is locked: it has one such write-off at most."""
    new = (write_off_id, invoice.id, amount_minor, reason, releases_credit, by.at, str(by.actor))
    await tx.execute(INSERT_WRITE_OFF, *new)


BOOK = """
WITH booked AS (
    UPDATE write_offs SET state = 'booked', amount_minor = $2, booked_at = $3, approved_by = $4 WHERE id = $1
    RETURNING invoice_id
)
UPDATE invoices SET written_off_at = $3, next_attempt_at = NULL FROM booked WHERE invoices.id = booked.invoice_id
"""


async def book_write_off_any_account(
    tx: Connection, write_off_id: str, amount_minor: int, *, approved_by: Actor | None, now: datetime
) -> None:
    """No worker looks at the invoice any more: nobody is reminded of it."""
    approver = None if approved_by is None else str(approved_by)
    await tx.execute(BOOK, write_off_id, amount_minor, now, approver)


UNDO = """
WITH undone AS (
    UPDATE write_offs
    SET state = CASE state WHEN 'booked' THEN 'undone' ELSE 'withdrawn' END,
        undone_minor = CASE state WHEN 'booked' THEN $2::bigint END, undone_at = $3, undone_by = $4, undo_reason = $5
    WHERE id = $1 RETURNING invoice_id
)
UPDATE invoices SET written_off_at = NULL, next_attempt_at = $3 FROM undone WHERE invoices.id = undone.invoice_id
"""


async def undo_write_off_any_account(
    tx: Connection, write_off_id: str, left_minor: int, *, reason: str, by: By
) -> None:
    """`left_minor` is owed again. The invoice is due for the worker."""
    await tx.execute(UNDO, write_off_id, left_minor, by.at, str(by.actor), reason)


FIND_ACTIVE = f"SELECT {_WRITE_OFF} WHERE written.invoice_id = $1 AND written.state IN ('approval', 'booked')"


async def find_write_off_any_account(connection: Connection, invoice: Invoice) -> WriteOff | None:
    """The write-off of an invoice that waits for approval or is booked."""
    return optional(_write_off, await connection.fetchrow(FIND_ACTIVE, invoice.id))


LIST_OF_INVOICE = f"SELECT {_WRITE_OFF} WHERE written.invoice_id = $1 ORDER BY written.requested_at, written.id"


async def list_write_offs_of_invoice_any_account(connection: Connection, invoice: Invoice) -> Sequence[WriteOff]:
    return [_write_off(row) for row in await connection.fetch(LIST_OF_INVOICE, invoice.id)]


LIST_WRITE_OFFS = f"""
SELECT {_WRITE_OFF}
WHERE invoices.mode = $1 AND ($2::text IS NULL OR written.state = $2)
  AND ($3::text IS NULL OR invoices.organisation_id = $3)
ORDER BY written.requested_at DESC, written.id LIMIT $4
"""


async def list_write_offs_any_account(
    connection: Connection, mode: Mode, *, state: WriteOffState | None, organisation_id: str | None, limit: int
) -> Sequence[WriteOff]:
    """Newest first."""
    rows = await connection.fetch(LIST_WRITE_OFFS, mode, state, organisation_id, limit)
    return [_write_off(row) for row in rows]
