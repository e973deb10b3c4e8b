"""Mail credit notes to those who were mailed the invoice."""

from datetime import timedelta

from msgspec import Struct

from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.documents.pdf import RenderInvoice
from tonne.money.invoices.mail import compose_credit_mail, find_recipients
from tonne.money.invoices.model import find_remaining
from tonne.money.invoices.store import find_by_references_any_account
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock

BATCH = 10
# Long enough to render and enqueue a batch. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=2)
# How soon a note is mailed after its organisation gets an admin.
NO_RECIPIENT_RETRY = timedelta(minutes=5)


class MailCreditNotes(Struct, frozen=True):
    database: Database
    clock: Clock
    settings: Settings
    render: RenderInvoice

    async def run_once(self) -> bool:
        """Mail a batch of due credit notes; false if none is due. A crash before the commit repeats the mail."""
        now = self.clock()
        claimed = await self.database.run(credit_note_store.claim_due_notes, now, now + LEASE, BATCH)
        return await run_each(
            claimed,
            self._mail,
            failure_event="credit_note_not_mailed",
            describe=lambda note: {"reference": note.reference},
        )

    async def _mail(self, note: CreditNote) -> None:
        now = self.clock()
        async with self.database.connection() as connection:
            recipients = await find_recipients(connection, note.organisation_id)
            if not recipients:
                until = now + NO_RECIPIENT_RETRY
                await credit_note_store.postpone_note_any_account(connection, note.id, until)
                return
            record = note.read_record()
            [invoice] = await find_by_references_any_account(connection, [record.invoice_number])
            remaining = await find_remaining(connection, invoice)
        left = "0" if remaining is None else remaining.due
        pdf = await self.render.credit_note(record)
        message = compose_credit_mail(self.settings, recipients, record, pdf=pdf, left=left)
        async with self.database.transaction() as tx:
            if await credit_note_store.mark_note_mailed_any_account(tx, note.id, now):
                await enqueue(tx, note.organisation_id, recipients, message, subject_id=note.id)
