"""SQL of `transfer_assignments`: which transfer paid how much of which invoice."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.money.bank.transfer_model import Assignment, PaidInvoice, Transfer
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By, new_id


class NewAssignment(NamedTuple):
    transfer_id: str
    invoice: PaidInvoice
    amount_minor: int


SUM_RECEIVED = """
SELECT invoice_id, sum(amount_minor)::bigint AS received_minor FROM transfer_assignments
WHERE invoice_id = ANY ($1::text[]) GROUP BY invoice_id
"""


async def sum_received_any_account(connection: Connection, invoice_ids: Sequence[str]) -> dict[str, int]:
    """What invoices have received by bank transfer, by id. Those that received nothing may be missing."""
    rows = await connection.fetch(SUM_RECEIVED, invoice_ids)
    return {row["invoice_id"]: row["received_minor"] for row in rows}


INSERT_ASSIGNMENTS = """
INSERT INTO transfer_assignments (id, transfer_id, amount_minor, by_operator, note, created_at, created_by, day,
                                  invoice_id, invoice_reference, organisation_id, mode, currency, invoice_paid,
                                  recovers)
SELECT new.id, new.transfer_id, new.amount_minor, $1, $2, $3, $4, transfer.booked_on, new.invoice_id, new.reference,
       new.organisation_id, new.mode, new.currency, new.is_paid, new.recovers
FROM unnest($5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
            $13::boolean[], $14::boolean[])
     AS new (id, transfer_id, amount_minor, invoice_id, reference, organisation_id, mode, currency, is_paid, recovers)
JOIN bank_transfers transfer ON transfer.id = new.transfer_id
"""


async def insert_assignments(
    tx: Connection,
    new: Sequence[NewAssignment],
    *,
    by_operator: bool,
    note: str = "",
    by: By,
) -> None:
    """Insert assignments, at least one. Then refresh the states of the transfers."""
    rows = [
        (
            *(new_id("asg"), each.transfer_id, each.amount_minor, paid.id, paid.reference, paid.organisation_id),
            *(paid.mode, paid.currency, paid.is_paid, paid.written_off_at is not None),
        )
        for each in new
        for paid in (each.invoice,)
    ]
    await tx.execute(INSERT_ASSIGNMENTS, by_operator, note, by.at, str(by.actor), *zip(*rows, strict=True))


UNDO_ASSIGNMENTS = """
INSERT INTO transfer_assignments (id, transfer_id, amount_minor, by_operator, undoes, note, created_at, created_by, day,
                                  invoice_id, invoice_reference, organisation_id, mode, currency, invoice_paid,
                                  recovers)
SELECT undone.id, assignment.transfer_id, -assignment.amount_minor, assignment.by_operator, assignment.id, $3, $4, $5,
       ($4::timestamptz AT TIME ZONE 'UTC')::date, assignment.invoice_id, assignment.invoice_reference,
       assignment.organisation_id, assignment.mode, assignment.currency, assignment.invoice_paid, $6
FROM unnest($1::text[], $2::text[]) AS undone (id, undoes)
JOIN transfer_assignments assignment ON assignment.id = undone.undoes
"""


async def undo_assignments_any_account(
    tx: Connection,
    invoice: PaidInvoice,
    assignments: Sequence[Assignment],
    *,
    note: str,
    by: By,
) -> None:
    """Record the opposite of assignments to an invoice. Then refresh the states of the transfers."""
    ids, recovers = [new_id("asg") for _ in assignments], invoice.written_off_at is not None
    await tx.execute(UNDO_ASSIGNMENTS, ids, [each.id for each in assignments], note, by.at, str(by.actor), recovers)


MARK_PAID_INVOICE = """
UPDATE transfer_assignments SET invoice_paid = true WHERE invoice_id = $1 AND NOT invoice_paid RETURNING transfer_id
"""


async def mark_assignments_paid(tx: Connection, invoice: PaidInvoice) -> list[str]:
    """An invoice is being paid. Returns the transfers that paid a part of it before: then refresh their states."""
    return [row["transfer_id"] for row in await tx.fetch(MARK_PAID_INVOICE, invoice.id)]


_ASSIGNMENT = """
assignment.id, assignment.transfer_id, assignment.invoice_id, assignment.invoice_reference,
       assignment.amount_minor, assignment.currency, assignment.by_operator,
       assignment.undoes IS NOT NULL
       OR EXISTS (SELECT FROM transfer_assignments undo WHERE undo.undoes = assignment.id) AS undone,
       assignment.note, assignment.created_at, assignment.created_by
FROM transfer_assignments assignment
"""

LIST_OF_TRANSFER = (
    f"SELECT {_ASSIGNMENT} WHERE assignment.transfer_id = $1 ORDER BY assignment.created_at, assignment.id"
)


async def list_assignments_any_account(connection: Connection, transfer: Transfer) -> list[Assignment]:
    """Oldest first, with those that were undone."""
    return [Assignment(**row) for row in await connection.fetch(LIST_OF_TRANSFER, transfer.id)]


LIST_OF_INVOICE = f"SELECT {_ASSIGNMENT} WHERE assignment.invoice_id = $1 ORDER BY assignment.created_at, assignment.id"


async def list_received_any_account(connection: Connection, invoice_id: str) -> list[Assignment]:
    """What an invoice received, oldest first, with what was undone."""
    return [Assignment(**row) for row in await connection.fetch(LIST_OF_INVOICE, invoice_id)]


FIND_ASSIGNMENT = f"SELECT {_ASSIGNMENT} WHERE assignment.id = $1"


async def find_assignment_any_account(connection: Connection, assignment_id: str) -> Assignment | None:
    row = await connection.fetchrow(FIND_ASSIGNMENT, assignment_id)
    return None if row is None else Assignment(**row)
