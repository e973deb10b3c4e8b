"""Money that goes back by bank: approve it, export the file for the bank, and record what the bank did."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording, Work, approval
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.bank import return_store
from tonne.money.bank.errors import ReturnInvalid
from tonne.money.bank.export_returns import ReturnFile, export_returns, find_small
from tonne.money.bank.formats.sepa_file import SEPA_CURRENCY
from tonne.money.bank.return_transfer import ReturnTo, approve_return, cancel_return, confirm_return, redirect_return
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus
from tonne.money.refunds.bank_refunds import fail_refund_return
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, format_money
from tonne.selling.users.guarded_settings import approved_settings
from tonne.selling.users.names import name_actors

MAX_NOTE = 500
ONE = "/money/returns/{return_id}"
FORMATS = ("sepa", "csv")


class ReturnsPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={
                "/money/returns": self.show,
                ONE: self.show_one,
                "/money/return-files/{batch_id}": self.download,
            },
            forms={
                "/money/returns/export": self.export,
                f"{ONE}/approve": self.approve,
                f"{ONE}/redirect": self.redirect,
                f"{ONE}/cancel": self.cancel,
                f"{ONE}/returned": self.returned,
                f"{ONE}/failed": self.failed,
            },
        )

    async def export(self, viewer: OperatorViewer, form: Form) -> Response:
        """Write the planned returns into a file for the bank, which can be downloaded as often as needed."""
        now = self.clock()
        currency, format_ = form.value("currency"), form.value("format")
        if currency not in DECIMALS or format_ not in FORMATS:
            form.fail("", "Choose a currency and a format.")

        async def work(tx: Connection) -> ReturnFile:
            written = await export_returns(
                tx, viewer.mode, currency, format_=format_, settings=self.settings, by=viewer.actor.at(now)
            )
            if written.batch_id is None:
                raise ReturnInvalid(
                    "Nothing can be exported: the planned returns wait for an approval, or their account is not known."
                )
            return written

        def effects(written: ReturnFile) -> Sequence[str]:
            total = format_money(sum(each.amount_minor for each in written.exported), currency)
            count = sum(each.paid_with is None for each in written.exported)
            lines = [f"The file pays {total} {currency} in {count} {'payment' if count == 1 else 'payments'}."]
            lines.append("Upload it to your bank once. Each return is exported once; the file can be downloaded again.")
            return lines + [f"Left out: {each.amount} to {each.to_name}: {why}." for each, why in written.left_out]

        back = f"{viewer.base}/money/returns"
        words = Wording("Export", "returns_exported", effects)
        title = f"Export returns in {currency}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show, back=back, title=title)

    async def download(self, viewer: OperatorViewer) -> Response:
        found = await self.find(return_store.find_batch_of_mode, viewer.mode, viewer.request.path("batch_id"))
        suffix, type_ = (".xml", b"application/xml") if found.format == "sepa" else (".csv", b"text/csv; charset=utf-8")
        headers = {
            "Content-Disposition": f'attachment; filename="{found.id}{suffix}"',
            "Cache-Control": "private, no-store",
        }
        return Response(found.content, 200, type_, headers)

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        found, now = await self._find(viewer), self.clock()
        effects = [f"{found.amount} may go to {found.to_name}, {found.to_iban}. The next file for the bank has it."]
        words = approval("Approve", "return_approved", lambda _: effects)
        return await self._take(
            viewer, form, words, lambda tx: approve_return(tx, found.id, approver=viewer.approver(now), now=now)
        )

    async def redirect(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        iban = form.text("iban", "Enter the IBAN of the account to pay to.", longest=50)
        name, note = form.value("name")[:200], _note(form, "redirect_note")
        effects = [
            f"{found.amount} go to {iban} instead.",
            "If that is not the payer's account, a second operator must approve it.",
        ]
        words = Wording("Change the account", "return_redirected", effects)
        return await self._take(
            viewer, form, words, lambda tx: redirect_return(tx, found.id, ReturnTo(iban, name), note, by=by)
        )

    async def cancel(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = _note(form)
        effects = [f"{found.amount} do not go back. The money waits for a decision again, or stays with its invoice."]
        words = Wording("Cancel the return", "return_cancelled", effects)
        return await self._take(viewer, form, words, lambda tx: cancel_return(tx, found.id, note, by=by))

    async def returned(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = _note(form)
        effects = [
            f"{found.amount} count as paid back to {found.to_name or 'the payer'}. No money moves.",
            "Statements that show the payment do this by themselves: use it only if no statement will.",
        ]
        words = Wording("Record as paid", "return_confirmed", effects)
        return await self._take(
            viewer, form, words, lambda tx: confirm_return(tx, found.id, note, settings=self.settings, by=by)
        )

    async def failed(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        note, incoming = _note(form), form.value("transfer")
        then = "The money waits for a decision again." if found.invoice_id is None else "The refund is planned again."
        effects = [f"The bank did not pay {found.amount}. {then}"]
        words = Wording("Record as failed", "return_failed", effects)
        return await self._take(
            viewer, form, words, lambda tx: fail_refund_return(tx, found.id, note, incoming_id=incoming or None, by=by)
        )

    async def _find(self, viewer: OperatorViewer) -> BankReturn:
        """Only of the viewer's mode."""
        [*found] = await self.database.run(return_store.find_returns_any_account, [viewer.request.path("return_id")])
        if not found or found[0].mode is not viewer.mode:
            raise DashboardPageNotFound
        return found[0]

    async def _take(self, viewer: OperatorViewer, form: Form, words: Wording, work: Work[Any]) -> Response:
        returns = f"{viewer.base}/money/returns"
        back = f"{returns}/{viewer.request.path('return_id')}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show_one, back=back, done=returns)

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        async with self.database.connection() as connection:
            found = await return_store.list_open_returns_any_account(connection, viewer.mode)
            batches = await return_store.list_batches_any_account(connection, viewer.mode)
            people = await name_actors(
                connection, [*(each.created_by for each in found), *(each.created_by for each in batches)]
            )
            limit = (await approved_settings(connection, self.settings)).return_approval_above
        ready = [
            each
            for each in found
            if each.status is ReturnStatus.PLANNED and each.to_iban and not each.waits_for_approval(limit)
        ]
        small = find_small(ready, self.settings, self.clock())
        return self.layout.page(
            viewer,
            "operator_returns.html",
            form,
            tab="returns",
            returns=[(each, _state(each, limit), small.get(each.id)) for each in found],
            batches=batches,
            ready=sorted(Counter(each.currency for each in ready if each.id not in small).items()),
            sepa_currency=SEPA_CURRENCY,
            people=people,
        )

    async def show_one(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        found = await self._find(viewer)
        people = await self.database.run(name_actors, [found.created_by, found.approved_by])
        limit = (await self.database.run(approved_settings, self.settings)).return_approval_above
        return self.layout.page(
            viewer,
            "operator_return.html",
            form,
            tab="returns",
            sent=found,
            state=_state(found, limit),
            waits=found.waits_for_approval(limit),
            people=people,
            entered={name: form.value(name) for name in ("note", "redirect_note", "iban", "name", "transfer")},
        )


_STATES = {
    ReturnStatus.PLANNED: ("Ready to export", ""),
    ReturnStatus.EXPORTED: ("At the bank", ""),
    ReturnStatus.RETURNED: ("Paid back", ""),
    ReturnStatus.FAILED: ("Failed", "bad"),
    ReturnStatus.CANCELLED: ("Cancelled", ""),
}


def _state(found: BankReturn, limit: int) -> tuple[str, str]:
    """In words, with the tone of the badge."""
    if found.waits_for_approval(limit):
        return "Waits for a second operator", "warn"
    if found.status is ReturnStatus.PLANNED and not found.to_iban:
        return "Account not known", "bad"
    return _STATES[found.status]


def _note(form: Form, name: str = "note") -> str:
    return form.text(name, "Say what happened, for the audit log.", longest=MAX_NOTE)
