"""Issue a credit note, which cancels an invoice or reduces it, and mail it to those who were mailed the invoice."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from tonne.money.bank.return_transfer import return_part_payments
from tonne.money.invoices import store
from tonne.money.invoices.credit_notes import credit_note
from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_mails import (
    compose_credit_mail,
    compose_replacement_mail,
    compose_taken_back_mail,
)
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.documents.parties import rate_text
from tonne.money.invoices.errors import CreditTooHigh
from tonne.money.invoices.invoice_events import CANCELLED, CREDITED, record_invoices
from tonne.money.invoices.issuing.billed_order_store import find_billed_order, list_billed_orders, mark_cancelled
from tonne.money.invoices.issuing.billing_store import remove_unbilled
from tonne.money.invoices.issuing.due_document_store import remove_due_documents
from tonne.money.invoices.mail import find_recipients
from tonne.money.invoices.model import Invoice, InvoiceStatus, find_remaining
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.release_surplus import release_surplus
from tonne.money.invoices.tax_documents import DocumentKind, find_documents_any_account, take_issue_numbers
from tonne.platform.db.batches import RowJobWithSettings, run_each
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import TaxTerms
from tonne.platform.values.context import By, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderKey


async def credit_order(
    tx: Connection,
    order: Order,
    amount_minor: int | None = None,
    *,
    cause: credit_note.CreditCause,
    reason: str | None,
    by: By,
    refund_id: str | None = None,
) -> credit_note.CreditNote | None:
    """Issue a credit note for a locked order: for what is left of it on its invoice, or for a part of that.

    None if the order is on no invoice, or nothing is left to credit. With CANCELLATION the order is taken off the
    invoice; if it still waits for its document, it gets none. Raises CreditTooHigh. It changes
    neither the order nor any payment: refunds and cancellations call it in their transaction, before they append
    events.
    """
    if cause is credit_note.CreditCause.CANCELLATION and await _has_no_document(tx, order):
        return None
    found = await store.find_invoice(tx, order.scope, order.id)
    if found is None:
        return None
    [invoice] = await store.lock_invoices_any_account(tx, [found.id])
    billed = await find_billed_order(tx, invoice, order.key)
    if billed is None or billed.cancelled:
        return None
    left = credit_note.without(billed, (await credit_note_store.sum_credited(tx, invoice)).get(order.id))
    if left.total_minor == 0:
        if cause is credit_note.CreditCause.CANCELLATION:
            await mark_cancelled(tx, invoice, [order.key])
        return None
    if amount_minor is not None and amount_minor > left.total_minor:
        raise CreditTooHigh(f"Only {invoice.money(left.total_minor)} of the order are left to credit.")
    part = credit_note.credit_in_full(left) if amount_minor is None else credit_note.credit_in_part(left, amount_minor)
    return await issue_credit_note(tx, invoice, [part], cause=cause, reason=reason, by=by, refund_id=refund_id)


async def _has_no_document(tx: Connection, order: Order) -> bool:
    """Whether it is cancelled before it was billed, or before the document of its card payment was issued."""
    return await remove_unbilled(tx, order) or bool(await remove_due_documents(tx, [order.key]))


async def credit_orders(
    tx: Connection,
    invoice: Invoice,
    keys: Collection[OrderKey],
    *,
    cause: credit_note.CreditCause,
    reason: str | None,
    by: By,
) -> credit_note.CreditNote | None:
    """Issue one credit note for all that is left of these orders on a locked invoice. None if nothing is."""
    earlier = await credit_note_store.sum_credited(tx, invoice)
    requested = [billed for billed in await list_billed_orders(tx, invoice) if billed.key in keys]
    left = [credit_note.without(billed, earlier.get(billed.order_id)) for billed in requested]
    credited = [credit_note.credit_in_full(each) for each in left if each.total_minor > 0]
    if not credited:
        return None
    return await issue_credit_note(tx, invoice, credited, cause=cause, reason=reason, by=by)


async def issue_credit_note(
    tx: Connection,
    invoice: Invoice,
    credited: Sequence[credit_note.CreditedOrder],
    *,
    cause: credit_note.CreditCause,
    reason: str | None,
    by: By,
    refund_id: str | None = None,
) -> credit_note.CreditNote:
    """Issue a credit note on a locked invoice. An open invoice of which nothing is left becomes cancelled.

    What a cancelled invoice had received is then to be returned. If orders of it were fulfilled on credit, it stays
    open instead, and a worker settles it: nothing is left to pay. What an open invoice has received beyond what is left
    of it is released at once: otherwise the books of a written-off invoice would show a negative bad debt.

    The row of the series is locked from here to the commit, which makes the numbers gapless: only events may be
    appended afterwards. The note is mailed if the invoice was.
    """
    if cause is credit_note.CreditCause.CANCELLATION:
        await mark_cancelled(tx, invoice, [each.key for each in credited])
    is_open, leaves_nothing = invoice.status is InvoiceStatus.OPEN, _total(credited) == invoice.due_minor
    is_cancelled = is_open and leaves_nothing and not await store.has_fulfilled_orders(tx, invoice)
    # Transfers are locked before the series.
    returned_minor = released_minor = 0
    if is_cancelled:
        returned_minor = await return_part_payments(tx, invoice, by=by)
    elif is_open:
        left_minor = max(invoice.due_minor - _total(credited), 0)
        released_minor = await release_surplus(tx, invoice, left_minor, by=by)
    number, issued_on = await take_issue_numbers(tx, DocumentKind.CREDIT_NOTE, invoice.mode, 1, by.at)
    note = credit_note.compose_credit_note(
        invoice,
        credited,
        number,
        issued_on,
        cause=cause,
        reason=reason,
        refund_id=refund_id,
        issued_by=str(by.actor),
        cancels_invoice=is_cancelled or (leaves_nothing and not is_open),
        terms=await find_terms(tx, invoice, credited),
        returned_minor=returned_minor,
    )
    status = await store.add_credit(tx, invoice, note.total_minor, cancels=is_cancelled, by=by)
    if status is None:
        raise CreditTooHigh(f"Only {invoice.due} of invoice {invoice.reference} are left to credit.")
    await credit_note_store.insert_credit_note(
        tx, invoice, note, by.at, mail_at=None if invoice.mailed_at is None else by.at
    )
    await credit_note_store.insert_credited_orders(tx, note.id, credited)
    entries = _entries(invoice, note, status, len(credited), released_minor)
    await audit.record_all(tx, entries, by=by)
    changed = replace(invoice, status=status, credited_minor=invoice.credited_minor + note.total_minor)
    event_type = CANCELLED if status is InvoiceStatus.CANCELLED else CREDITED
    await record_invoices(tx, [changed], event_type, by.at)
    return note


async def find_terms(
    tx: Connection, invoice: Invoice, credited: Sequence[credit_note.CreditedOrder]
) -> credit_note.TermsOfOrders | None:
    if len(invoice.read_record().taxes) < 2:
        return None
    orders = await load_orders(tx, [each.key for each in credited])
    terms = {order.id: TaxTerms(order.tax.treatment, order.tax.rate) for order in orders}
    return {id_: (each.treatment.value, rate_text(each)) for id_, each in terms.items()}


def _total(credited: Sequence[credit_note.CreditedOrder]) -> int:
    return sum(each.total_minor for each in credited)


def _entries(
    invoice: Invoice, note: credit_note.CreditNote, status: InvoiceStatus, orders: int, released_minor: int
) -> list[audit.Entry]:
    released = {"released": invoice.money(released_minor)} if released_minor else {}
    details: dict[str, Any] = {"reference": invoice.reference, "credit_note": note.reference, "reason": note.reason}
    content = {"total": note.total, "cause": note.cause, "orders": orders, "refund_id": note.refund_id}
    changed = audit.entry_in(
        invoice,
        "invoice.cancelled" if status is InvoiceStatus.CANCELLED else "invoice.credited",
        invoice.id,
        before={"status": invoice.status, "due": invoice.due},
        after={"status": status, "due": invoice.money(invoice.due_minor - note.total_minor)},
        **details,
        **released,
        first_order_id=invoice.first_order_id,
    )
    return [audit.entry_in(invoice, "credit_note.issued", note.id, after=content, **details), changed]


BATCH = 10
# Long enough to render and enqueue a batch. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=2)
# How soon a note is mailed after its organisation gets an admin.
NO_RECIPIENT_RETRY = timedelta(minutes=5)


class MailCreditNotes(RowJobWithSettings, frozen=True):
    originals: Originals

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
            following = await find_documents_any_account(connection, [note.taken_back_by or ""])
        originals = await self.originals.attachments(note)
        if following:
            [document] = following
            originals = [*await self.originals.attachments(document), *originals]
            is_replaced = note.cause is credit_note.CreditCause.REPLACEMENT
            compose = compose_replacement_mail if is_replaced else compose_taken_back_mail
            message = compose(self.settings, recipients, record, document.electronic(), originals=originals)
        else:
            left = "0" if remaining is None else remaining.due
            is_charged = invoice.payment_method is PaymentMethod.CARD
            message = compose_credit_mail(
                self.settings, recipients, record, originals=originals, left=left, is_charged=is_charged
            )
        async with self.database.transaction() as tx:
            if await credit_note_store.mark_note_mailed(tx, note, now):
                await enqueue(tx, note.organisation_id, recipients, message, subject_id=note.id, urgency=Urgency.BULK)
