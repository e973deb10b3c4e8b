"""Card payments: those that arrived with another amount, and the payouts of the gateway."""

from collections.abc import Awaitable, Callable, Mapping

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.apps.lookup.charge_search_store import (
    ChargeSearch,
    FoundCharge,
    find_charge_any_account,
    search_charges_any_account,
)
from tonne.money.accounting.journal.import_payouts import PayoutImport, import_payouts, list_payouts
from tonne.money.cards.gateways.card import CardGateway, RecordedPayment
from tonne.money.cards.model import ChargeStatus
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_money
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import find_names_any_account
from tonne.selling.orders.model import Order, OrderStatus

SHOWN, SHOWN_PAYOUTS, MOST_ERRORS = 100, 30, 5
MAX_REASON = 500
ONE = "/money/payments/{charge_id}"
Decide = Callable[..., Awaitable[Order]]


class PaymentsPage(ConfirmedPage, frozen=True):
    gateways: Mapping[str, CardGateway]

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/money/payments": self.show, ONE: self.show_one},
            forms={
                "/money/payments": self.upload,
                f"{ONE}/accept": self.accept,
                f"{ONE}/return": self.send_back,
            },
            uploads={"/money/payments": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def accept(self, viewer: OperatorViewer, form: Form) -> Response:
        return await self._decide(viewer, form, accept_mismatched, "Accept the payment", "payment_accepted")

    async def send_back(self, viewer: OperatorViewer, form: Form) -> Response:
        return await self._decide(viewer, form, return_mismatched, "Send the payment back", "payment_returned")

    async def _decide(self, viewer: OperatorViewer, form: Form, decide: Decide, button: str, notice: str) -> Response:
        charge = await self._find(viewer)
        reason = form.text("reason", "Say why, for the audit log.", longest=MAX_REASON)
        payment: RecordedPayment | None = None
        with form.catch():
            async with self.database.connection() as connection:
                payment = await read_mismatched(connection, self.gateways, charge.id)

        async def work(tx: Connection) -> Order:
            return await decide(tx, charge.id, payment, by=viewer.actor.at(self.clock()), reason=reason)

        def effects(order: Order) -> list[str]:
            arrived = _arrived(payment)
            if decide is accept_mismatched:
                lines = [f"{arrived} pay for order {order.id}, which is fulfilled: this cannot be undone."]
                surplus = 0 if payment is None else payment.captured_minor - charge.amount_minor
                return lines + [
                    f"{format_money(surplus, charge.currency)} {charge.currency} above the amount go back."
                ] * (surplus > 0)
            back = "No money goes back: it belongs to the gateway's other mode." if payment is None else ""
            lines = [back or f"{arrived} go back to the card."]
            return lines + [f"Order {order.id} is cancelled."] * (order.status is OrderStatus.CANCELLED)

        back = f"{viewer.base}/money/payments"
        return await self.take_step(
            viewer, form, Wording(button, notice, effects), work, show_faults=self.show_one, back=back
        )

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        """Payouts and fees: all lines of the file or none."""
        file = read_upload(viewer.request, form, "payouts", "tonne payout import")
        made = PayoutImport(0, 0)
        if file is not None:
            try:
                async with self.saving(form) as tx:
                    made = await import_payouts(tx, viewer.mode, file, by=viewer.actor.at(self.clock()))
            except SheetInvalid as error:
                form.fail("payouts", " ".join(str(each) for each in error.errors[:MOST_ERRORS]))
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/money/payments?done={'payouts_imported' if made.added else 'payouts_known'}")

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        async with self.database.connection() as connection:
            search = ChargeSearch(status=ChargeStatus.MISMATCHED, mode=viewer.mode)
            charges = await search_charges_any_account(connection, search, SHOWN)
            payouts = await list_payouts(connection, viewer.mode, SHOWN_PAYOUTS)
            names = await find_names_any_account(connection, [each.organisation_id for each in charges])
        return self.layout.page(
            viewer,
            "operator_payments.html",
            form,
            tab="payments",
            charges=charges,
            payouts=payouts,
            names=names,
        )

    async def show_one(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form, charge = form or Form(), await self._find(viewer)
        names = await self.database.run(find_names_any_account, [charge.organisation_id])
        return self.layout.page(
            viewer,
            "operator_payment.html",
            form,
            tab="payments",
            charge=charge,
            names=names,
            waits=charge.status == ChargeStatus.MISMATCHED,
            reason=form.value("reason"),
        )

    async def _find(self, viewer: OperatorViewer) -> FoundCharge:
        """Only of the viewer's mode."""
        found = await self.database.run(find_charge_any_account, viewer.request.path("charge_id"))
        if found is None or found.mode != viewer.mode:
            raise DashboardPageNotFound
        return found


def _arrived(payment: RecordedPayment | None) -> str:
    return "" if payment is None else f"{format_money(payment.captured_minor, payment.currency)} {payment.currency}"
