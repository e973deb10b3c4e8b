"""What became of an invoice since it was issued, read for the sheet about it."""

from datetime import UTC, datetime

from msgspec import structs

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.money.invoices.documents.state_sheet import Credit, InvoiceState, state_pdf
from tonne.money.invoices.model import Invoice, bank_of
from tonne.platform.db.database import Connection
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_money
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.users.guarded_settings import approved_settings


async def read_state(connection: Connection, invoice: Invoice, now: datetime) -> InvoiceState:
    notes = [each for each in await list_credit_notes(connection, invoice) if each.taken_back_by is None]
    received_minor = (await sum_received_any_account(connection, [invoice.id])).get(invoice.id, 0)
    if invoice.settled_minor is not None:
        # A card may have paid it, or a person has said so.
        received_minor = invoice.settled_minor - invoice.difference_minor
    is_open = invoice.closing is None

    def amount(minor: int) -> str:
        return format_money(minor, invoice.currency)

    return InvoiceState(
        as_of=now.astimezone(UTC).date().isoformat(),
        closing=invoice.closing,
        credits=[Credit(note.reference, note.issued_on.isoformat(), amount(note.total_minor)) for note in notes],
        received=amount(received_minor) if received_minor else None,
        due=amount(max(invoice.due_minor - received_minor, 0) if is_open else 0),
    )


async def payable_record(connection: Connection, invoice: Invoice, settings: Settings) -> InvoiceRecord:
    """The record, with our bank account if a card was to pay the invoice and a transfer may pay it now."""
    record = invoice.read_record()
    if not record.paid_by_card or invoice.payment_method is PaymentMethod.CARD:
        return record
    bank = bank_of(await approved_settings(connection, settings), invoice.currency)
    return structs.replace(record, paid_by_card=False, bank=bank)


async def invoice_state_pdf(record: InvoiceRecord, state: InvoiceState, *, is_reminder: bool = False) -> bytes:
    """`record` is a payable one."""
    return await in_turn(state_pdf, record, state, is_reminder=is_reminder)
