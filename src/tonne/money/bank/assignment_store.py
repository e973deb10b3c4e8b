"""SQL of `transfer_assignments`: which transfer paid how much of which invoice."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.money.bank.transfer_model import Assignment, Transfer
from tonne.platform.db.pool import Connection
from tonne.platform.values.actor import Actor
from tonne.platform.values.ids import new_id


class NewAssignment(NamedTuple):
    transfer_id: str
    invoice_id: str
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
INSERT INTO transfer_assignments (id, transfer_id, invoice_id, amount_minor, by_operator, note, created_at, created_by,
                                  recovers)
SELECT new.id, new.transfer_id, new.invoice_id, new.amount_minor, $1, $2, $3, $4, invoices.written_off_at IS NOT NULL
FROM unnest($5::text[], $6::text[], $7::text[], $8::bigint[]) AS new (id, transfer_id, invoice_id, amount_minor)
JOIN invoices ON invoices.id = new.invoice_id
"""


async def insert_assignments_any_account(
    tx: Connection,
    new: Sequence[NewAssignment],
    *,
    by_operator: bool,
    note: str = "",
    actor: Actor,
    now: datetime,
) -> None:
    """Insert assignments, at least one. Then refresh the states of the transfers."""
    rows = [(new_id("asg"), *each) for each in new]
    await tx.execute(INSERT_ASSIGNMENTS, by_operator, note, now, str(actor), *zip(*rows, strict=True))


UNDO_ASSIGNMENTS = """
INSERT INTO transfer_assignments (id, transfer_id, invoice_id, amount_minor, by_operator, undoes, note, created_at,
                                  created_by, recovers)
SELECT undone.id, assignment.transfer_id, assignment.invoice_id, -assignment.amount_minor, assignment.by_operator,
       assignment.id, $3, $4, $5, invoices.written_off_at IS NOT NULL
FROM unnest($1::text[], $2::text[]) AS undone (id, undoes)
JOIN transfer_assignments assignment ON assignment.id = undone.undoes
JOIN invoices ON invoices.id = assignment.invoice_id
"""


async def undo_assignments_any_account(
    tx: Connection, assignments: Sequence[Assignment], *, note: str, actor: Actor, now: datetime
) -> None:
    """Record the opposite of assignments. Then refresh the states of the transfers."""
    ids = [new_id("asg") for _ in assignments]
    await tx.execute(UNDO_ASSIGNMENTS, ids, [each.id for each in assignments], note, now, str(actor))


_ASSIGNMENT = """
assignment.id, assignment.transfer_id, assignment.invoice_id, invoices.reference AS invoice_reference,
       assignment.amount_minor, invoices.currency, assignment.by_operator,
       assignment.undoes IS NOT NULL
       OR EXISTS (SELECT FROM transfer_assignments undo WHERE undo.undoes = assignment.id) AS undone,
       assignment.note, assignment.created_at, assignment.created_by
FROM transfer_assignments assignment JOIN invoices ON invoices.id = assignment.invoice_id
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
