"""One invoice for the operator: what it bills, what was paid, and what to do about it."""

from decimal import Decimal
from typing import Any

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording, Work, approval
from tonne.apps.dashboard.document_files import download
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.accounting.matching.assign_transfer import DIFFERENCES, GIVEN_UP
from tonne.money.accounting.reports.organisation_documents import list_charges_of_invoice
from tonne.money.bank.assignment_store import list_received_any_account
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.documents.billed_lines import billed_lines
from tonne.money.invoices.errors import InvoiceNotFound
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.follow_up_invoices import resend_invoice
from tonne.money.invoices.issuing.billed_order_store import list_billed_orders
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceStatus, describe_invoice
from tonne.money.invoices.originals.invoice_state import invoice_state_pdf, payable_record, read_state
from tonne.money.invoices.settle_difference import clear_settled, settle_with_difference
from tonne.money.invoices.settle_invoice import approve_write_off, reinstate_invoice, settle_invoice, write_off_invoice
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState, list_write_offs_of_invoice_any_account
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, parse_typed, scaled
from tonne.selling.accounts.directory import find_names_any_account
from tonne.selling.users.names import name_actors

MAX_REASON = 500
# Orders that the page lists. The PDF has all.
SHOWN_ORDERS = 50
SHOWN_LINES = 100
ONE = "/money/invoices/{number}"
_FIELDS = (
    "note",
    "reason",
    "difference",
    "received",
    "clear_note",
    "clear_difference",
    "credit_amount",
    "credit_order",
    "credit_reason",
)
STILL_OWED = "The customer gets no mail and still owes the money: what arrives later pays the invoice."


class OperatorInvoicePage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={ONE: self.show, f"{ONE}/state": self.state},
            forms={
                f"{ONE}/settle": self.settle,
                f"{ONE}/clear-settled": self.clear,
                f"{ONE}/write-off": self.write_off,
                f"{ONE}/approve-write-off": self.approve,
                f"{ONE}/reinstate": self.reinstate,
                f"{ONE}/resend": self.resend,
                f"{ONE}/credit": self.credit,
            },
        )

    async def settle(self, viewer: OperatorViewer, form: Form) -> Response:
        """Mark as paid, without a transfer."""
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = form.text("note", "Say how it was paid, for the audit log.", longest=MAX_REASON)
        kind = form.value("difference")
        received_minor = _typed_minor(form, "received", invoice)
        if received_minor is not None and kind not in DIFFERENCES:
            form.fail("difference", "Choose how to book what is missing.")
        effects = [
            f"Invoice {invoice.reference} for {invoice.due} and {invoice.orders_text} are marked as paid.",
            "Orders that wait for the payment are fulfilled: this cannot be undone.",
        ]

        async def work(tx: Connection) -> int:
            if kind not in DIFFERENCES:
                await settle_invoice(tx, invoice, by=by, note=note)
                return 0
            booked = None if kind == GIVEN_UP else DifferenceKind(kind)
            return await settle_with_difference(
                tx, invoice, booked, received_minor, note=note, settings=self.settings, by=by
            )

        def all_effects(missing_minor: int) -> list[str]:
            if not missing_minor:
                return [*effects, "A transfer that arrives later and names the invoice is matched to it."]
            if kind == GIVEN_UP:
                return [*effects, f"A credit note gives up {invoice.money(missing_minor)}, and corrects their tax."]
            return [*effects, f"{invoice.money(missing_minor)} are booked as {kind.replace('_', ' ')}, with their tax."]

        words = Wording("Mark as paid", "invoice_settled", all_effects)
        return await self._take(viewer, form, invoice, words, work)

    async def clear(self, viewer: OperatorViewer, form: Form) -> Response:
        """Book what never arrived of an invoice that was settled by hand."""
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = form.text("clear_note", "Say why, for the audit log.", longest=MAX_REASON)
        kind = next((each for each in DifferenceKind if each == form.value("clear_difference")), None)
        if kind is None:
            form.fail("clear_difference", "Choose how to book what never arrived.")

        async def work(tx: Connection) -> int:
            chosen = kind or DifferenceKind.SMALL_DIFFERENCE
            return await clear_settled(tx, invoice, chosen, note=note, settings=self.settings, by=by)

        def effects(left_minor: int) -> list[str]:
            booked = "bank fees" if kind is DifferenceKind.BANK_FEES else "a small difference"
            return [
                f"{invoice.money(left_minor)} of invoice {invoice.reference} are booked as {booked}, with their tax.",
                "A transfer of that money is then not expected any more.",
            ]

        words = Wording("Book what never arrived", "difference_booked", effects)
        return await self._take(viewer, form, invoice, words, work)

    async def write_off(self, viewer: OperatorViewer, form: Form) -> Response:
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())
        reason = form.text("reason", "Say why it is not expected to be paid, for the audit log.", longest=MAX_REASON)
        releases = form.is_checked("release_credit")

        async def work(tx: Connection) -> WriteOff:
            return await write_off_invoice(
                tx, invoice, reason=reason, releases_credit=releases, settings=self.settings, by=by
            )

        def effects(made: WriteOff) -> list[str]:
            credit = (
                "Its orders no longer use the credit limit." if releases else "Its orders still use the credit limit."
            )
            if made.state is WriteOffState.APPROVAL:
                return [f"{made.amount} wait until a second operator approves the write-off.", STILL_OWED, credit]
            return [f"{made.amount} of invoice {made.invoice_reference} are written off.", STILL_OWED, credit]

        words = Wording("Write off", "invoice_written_off", effects)
        return await self._take(viewer, form, invoice, words, work)

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        invoice, now = await self._find(viewer), self.clock()

        async def work(tx: Connection) -> WriteOff:
            return await approve_write_off(tx, invoice, approver=viewer.approver(now), now=now)

        def effects(made: WriteOff) -> list[str]:
            return [f"{made.amount} of invoice {made.invoice_reference} are written off.", STILL_OWED]

        words = approval("Approve the write-off", "invoice_written_off", effects)
        return await self._take(viewer, form, invoice, words, work)

    async def reinstate(self, viewer: OperatorViewer, form: Form) -> Response:
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())
        reason = form.text("reason", "Say why, for the audit log.", longest=MAX_REASON)

        def effects(undone: WriteOff) -> list[str]:
            if undone.state is WriteOffState.APPROVAL:
                return [f"Invoice {undone.invoice_reference} is not written off."]
            left = invoice.money(undone.left_minor)
            return [f"{left} of invoice {undone.invoice_reference} are expected to be paid again."]

        words = Wording("Reinstate", "invoice_reinstated", effects)
        return await self._take(
            viewer, form, invoice, words, lambda tx: reinstate_invoice(tx, invoice, reason=reason, by=by)
        )

    async def resend(self, viewer: OperatorViewer, form: Form) -> Response:
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())

        def effects(recipients: list[str]) -> list[str]:
            return [f"{invoice.reference} is mailed to {', '.join(recipients)}."]

        words = Wording("Mail it again", "invoice_resent", effects)
        return await self._take(
            viewer, form, invoice, words, lambda tx: resend_invoice(tx, invoice, settings=self.settings, by=by)
        )

    async def credit(self, viewer: OperatorViewer, form: Form) -> Response:
        """A credit note over a part of an order."""
        invoice, by = await self._find(viewer), viewer.actor.at(self.clock())
        amount_minor = scaled(parse_typed(form.value("credit_amount")) or Decimal(0), DECIMALS[invoice.currency]) or 0
        if amount_minor < 1:
            form.fail("credit_amount", "Enter an amount above zero, tax included, such as 12.50.")
        reason = form.text("credit_reason", "Say why, for the credit note and the audit log.", longest=MAX_REASON)
        order_id = form.value("credit_order") or None

        async def work(tx: Connection) -> CreditNote:
            return await correct_invoice(tx, invoice, order_id, amount_minor, reason=reason, by=by)

        def effects(note: CreditNote) -> list[str]:
            return [
                f"A credit note over {note.total}, tax included, reduces invoice {invoice.reference} and is mailed.",
                "The order does not change. A credit note cannot be undone.",
            ]

        words = Wording("Issue the credit note", "invoice_credited", effects)
        return await self._take(viewer, form, invoice, words, work)

    async def state(self, viewer: OperatorViewer) -> Response:
        """What became of it, as the customer sees it: a payment confirmation, or what is left to pay."""
        invoice = await self._find(viewer)
        async with self.database.connection() as connection:
            found = await read_state(connection, invoice, self.clock())
            record = await payable_record(connection, invoice, self.settings)
        return download(await invoice_state_pdf(record, found), f"{invoice.reference}-{found.kind}.pdf")

    async def _find(self, viewer: OperatorViewer) -> Invoice:
        """Only of the viewer's mode."""
        try:
            return await self.database.run(find_by_number_any_account, viewer.request.path("number"), viewer.mode)
        except InvoiceNotFound as error:
            raise DashboardPageNotFound from error

    async def _take(
        self, viewer: OperatorViewer, form: Form, invoice: Invoice, words: Wording, work: Work[Any]
    ) -> Response:
        back, title = f"{viewer.base}/money/invoices/{invoice.reference}", f"{words.button}: {invoice.reference}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show, back=back, title=title)

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        invoice = await self._find(viewer)
        async with self.database.connection() as connection:
            received = await list_received_any_account(connection, invoice.id)
            charges = await list_charges_of_invoice(connection, invoice)
            notes = await list_credit_notes(connection, invoice)
            write_offs = await list_write_offs_of_invoice_any_account(connection, invoice)
            orders = await list_billed_orders(connection, invoice, SHOWN_ORDERS)
            names = await find_names_any_account(connection, [invoice.organisation_id])
            actors = [invoice.settled_by, *(each.requested_by for each in write_offs)]
            people = await name_actors(connection, [*actors, *(each.approved_by for each in write_offs)])
        received_minor = sum(each.amount_minor for each in received)
        by_hand_minor = (invoice.settled_minor or 0) - invoice.difference_minor if invoice.settled_by_hand else 0
        active = next((w for w in write_offs if w.state in {WriteOffState.APPROVAL, WriteOffState.BOOKED}), None)
        return self.layout.page(
            viewer,
            "operator_invoice.html",
            form,
            tab="owed",
            invoice=invoice,
            lines=billed_lines(invoice.read_record(), SHOWN_LINES),
            state=describe_invoice(invoice, received_minor, self.today(), with_write_offs=True),
            is_open=invoice.status is InvoiceStatus.OPEN,
            left_minor=max(0, invoice.due_minor - received_minor) if invoice.closing is None else 0,
            customer_name=names.of(invoice.organisation_id),
            received=received,
            received_minor=received_minor,
            awaited_minor=max(0, by_hand_minor - received_minor),
            charges=charges,
            notes=notes,
            write_offs=write_offs,
            write_off=active,
            orders=orders,
            people=people,
            entered={name: form.value(name) for name in _FIELDS},
        )


def _typed_minor(form: Form, name: str, invoice: Invoice) -> int | None:
    """An amount that may be left out."""
    if not (text := form.value(name)):
        return None
    minor = scaled(parse_typed(text) or Decimal(-1), DECIMALS[invoice.currency])
    if minor is None or minor < 0:
        form.fail(name, "Enter an amount such as 12.50.")
    return minor
