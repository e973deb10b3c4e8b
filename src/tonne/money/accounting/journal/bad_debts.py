"""What writing off an invoice books. The tax stays booked: it is owed until a credit note corrects the invoice.

What an invoice receives, or is credited, while it is written off is booked on bad debts instead of receivables
(`recovers`), so that their balance is what is written off and still open.
"""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To


def _sql(at: str, amount_minor: str) -> str:
    return f"""
    SELECT invoice.mode, {at} AS at, written.id AS source_id, invoice.reference AS subject, invoice.organisation_id,
           invoice.currency, posting.account, posting.amount_minor
    FROM write_offs written
    JOIN invoices invoice ON invoice.id = written.invoice_id
    CROSS JOIN LATERAL (VALUES
        ('{To.BAD_DEBTS}', {amount_minor}),
        ('{To.RECEIVABLES}', -({amount_minor}))
    ) AS posting (account, amount_minor)
    WHERE written.booked_at IS NOT NULL AND {at} IS NOT NULL
    """  # noqa: S608 - made of our own constants


WRITTEN_OFF = JournalSource("written_off", "Invoice written off", _sql("written.booked_at", "written.amount_minor"))
REINSTATED = JournalSource(
    "reinstated", "Written-off invoice reinstated", _sql("written.undone_at", "-written.undone_minor")
)
BAD_DEBTS = (WRITTEN_OFF, REINSTATED)
