"""SQL: invoices by the numbers of their documents."""

from collections.abc import Sequence

from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import INVOICE_COLUMNS, INVOICES, read_invoice
from tonne.platform.db.database import Connection

# By the number of each document that was ever issued for it.
NUMBERED = """
SELECT named.reference, coalesce(note.invoice_id, named.id) AS invoice_id
FROM tax_documents named LEFT JOIN credit_notes note ON note.id = named.corrects AND note.cause = 'replacement'
WHERE named.reference = ANY ($1::text[])
"""


async def find_ids_any_account(connection: Connection, references: Sequence[str]) -> dict[str, str]:
    """The ids of the invoices with these numbers, which may be those of documents that were replaced, by number."""
    return {row["reference"]: row["invoice_id"] for row in await connection.fetch(NUMBERED, references)}


FIND_BY_REFERENCES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES} WHERE invoices.id IN (SELECT invoice_id FROM ({NUMBERED}) AS numbered)
"""  # noqa: S608 - constants


async def find_by_references_any_account(connection: Connection, references: Sequence[str]) -> list[Invoice]:
    return [read_invoice(row) for row in await connection.fetch(FIND_BY_REFERENCES, references)]
