"""One bank transfer: match it with an invoice or a payout, return it, or record that it was dealt with."""

from collections.abc import Sequence
from typing import Any

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording, Work
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.accounting.journal.import_payouts import (
    ListedPayout,
    list_open_payouts,
    match_payout,
    reopen_and_unmatch,
)
from tonne.money.accounting.matching.assign_transfer import (
    DIFFERENCES,
    GIVEN_UP,
    assign_short_transfer,
    assign_transfer,
    unassign_transfer,
)
from tonne.money.accounting.matching.import_statement import suggest_splits_any_account
from tonne.money.accounting.matching.match_line import suggest_matches_any_account
from tonne.money.bank.assignment_store import list_assignments_any_account
from tonne.money.bank.return_store import list_returns_of_transfer_any_account, resolve_transfer
from tonne.money.bank.return_transfer import ReturnTo, return_transfer
from tonne.money.bank.transfer_model import Assignment, BankReturn, Transfer
from tonne.money.bank.transfer_store import find_transfers_any_account
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceStatus
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, parse_decimal, scaled
from tonne.platform.values.errors import TonneError
from tonne.selling.users.guarded_settings import approved_settings
from tonne.selling.users.names import name_actors

MAX_NOTE = 500
ONE = "/money/transfers/{transfer_id}"
_REST = {
    DifferenceKind.BANK_FEES: "booked as bank fees, and its tax stays",
    DifferenceKind.SMALL_DIFFERENCE: "booked as a small difference, and its tax stays",
    GIVEN_UP: "given up by a credit note, which corrects its tax",
}
_FIELDS = (
    "invoice",
    "amount",
    "note",
    "reason",
    "return_amount",
    "iban",
    "name",
    "resolution",
    "undo_note",
    "reopen_note",
)


class TransferPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={ONE: self.show},
            forms={
                f"{ONE}/assign": self.assign,
                f"{ONE}/unassign": self.unassign,
                f"{ONE}/payout": self.match_payout,
                f"{ONE}/return": self.return_,
                f"{ONE}/resolve": self.resolve,
                f"{ONE}/reopen": self.reopen,
            },
        )

    async def assign(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        numbers = form.text("invoice", "Enter the number of an invoice.", longest=400).replace(",", " ").split()
        note = _optional(form, "note")
        minor = _amount(form, "amount", transfer)
        difference = form.value("difference")
        try:
            async with self.database.connection() as connection:
                invoices = [await find_by_number_any_account(connection, each, viewer.mode) for each in numbers]
        except TonneError:
            form.fail("invoice", f"There is no such invoice in {viewer.mode} mode. Check the number.")
            return await self.show(viewer, form)

        def effects(result: tuple[Transfer, list[Invoice]]) -> Sequence[str]:
            after, paid = result
            used = transfer.money(transfer.rest_minor - after.rest_minor)
            names = ", and to ".join(
                f"invoice {each.reference} over {each.due}, which is then {each.status}" for each in paid
            )
            lines = [f"{used} of the transfer go to {names}."]
            if any(each.status is InvoiceStatus.PAID for each in paid):
                lines.append("Orders that wait for the payment are fulfilled.")
            if difference in DIFFERENCES:
                lines.append(f"The rest of the invoice is {_REST[difference]}.")
            if after.rest_minor:
                lines.append(f"{after.rest} of the transfer are left: assign or return them next.")
            return lines

        async def work(tx: Connection) -> tuple[Transfer, list[Invoice]]:
            if difference not in DIFFERENCES or len(invoices) != 1:
                return await assign_transfer(tx, transfer.id, invoices, minor, note=note, by=by)
            [short] = invoices
            return await assign_short_transfer(tx, transfer.id, short, difference, settings=self.settings, by=by)

        words = Wording("Match it", "transfer_assigned", effects)
        return await self._take(viewer, form, transfer, words, work)

    async def unassign(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        note, assignment_id = _note(form, "undo_note"), form.value("assignment_id")

        async def work(tx: Connection) -> tuple[Assignment, Transfer]:
            known = {each.id for each in await list_assignments_any_account(tx, transfer)}
            if assignment_id not in known:
                raise DashboardPageNotFound
            return await unassign_transfer(tx, assignment_id, note=note, by=by)

        def effects(result: tuple[Assignment, Transfer]) -> Sequence[str]:
            undone, after = result
            return [
                f"The transfer no longer pays invoice {undone.invoice_reference}. {after.rest} of it are left.",
                "An invoice that it settled stays paid. The next transfer that names the invoice is matched to it.",
            ]

        words = Wording("Undo the match", "transfer_unassigned", effects)
        return await self._take(viewer, form, transfer, words, work)

    async def match_payout(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        payout_id = form.value("payout_id")

        async def work(tx: Connection) -> ListedPayout:
            open_ones = await list_open_payouts(tx, viewer.mode, transfer.currency, transfer.rest_minor)
            if payout_id not in {each.id for each in open_ones}:
                raise DashboardPageNotFound
            return await match_payout(tx, payout_id, transfer.id, by=by)

        def effects(matched: ListedPayout) -> Sequence[str]:
            return [f"The transfer is payout {matched.payout_id} of the card gateway. It pays no invoice."]

        words = Wording("Match the payout", "transfer_resolved", effects)
        return await self._take(viewer, form, transfer, words, work)

    async def return_(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        reason, minor = _note(form, "reason"), _amount(form, "return_amount", transfer)
        iban, name = form.value("iban"), form.value("name")[:MAX_NOTE]
        to = ReturnTo(iban, name) if iban else None

        def effects(result: tuple[BankReturn, int]) -> Sequence[str]:
            planned, limit = result
            where = (
                f"{planned.to_name}, {planned.to_iban}" if planned.to_iban else "the payer, whose account is not known"
            )
            lines = [
                f"{planned.amount} go back to {where}.",
                "The return is planned. Export it for your bank under Returns.",
            ]
            if planned.waits_for_approval(limit):
                lines.append("A second operator must approve it first.")
            return lines

        async def work(tx: Connection) -> tuple[BankReturn, int]:
            limit = (await approved_settings(tx, self.settings)).return_approval_above
            return await return_transfer(tx, transfer.id, minor, reason=reason, to=to, by=by), limit

        words = Wording("Plan the return", "return_planned", effects)
        return await self._take(viewer, form, transfer, words, work)

    async def resolve(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = _note(form, "resolution")
        effects = [
            f"{transfer.rest} no longer wait for a decision. No money moves, and no invoice is paid.",
            "The transfer can be reopened later.",
        ]
        words = Wording("Ignore it", "transfer_resolved", effects)
        return await self._take(
            viewer, form, transfer, words, lambda tx: resolve_transfer(tx, transfer.id, note, by=by)
        )

    async def reopen(self, viewer: OperatorViewer, form: Form) -> Response:
        transfer, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = _note(form, "reopen_note")
        effects = [f"{transfer.money(transfer.resolved_minor)} of the transfer wait for a decision again."]
        words = Wording("Reopen", "transfer_reopened", effects)
        return await self._take(
            viewer, form, transfer, words, lambda tx: reopen_and_unmatch(tx, transfer.id, note, by=by)
        )

    async def _find(self, viewer: OperatorViewer) -> Transfer:
        """Only of the viewer's mode."""
        [*found] = await self.database.run(find_transfers_any_account, [viewer.request.path("transfer_id")])
        if not found or found[0].mode is not viewer.mode:
            raise DashboardPageNotFound
        return found[0]

    async def _take(
        self, viewer: OperatorViewer, form: Form, transfer: Transfer, words: Wording, work: Work[Any]
    ) -> Response:
        back, title = f"{viewer.base}/money/transfers/{transfer.id}", f"{words.button}: {transfer.amount}"
        if transfer.payer:
            title = f"{title} from {transfer.payer}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show, back=back, title=title)

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        transfer = await self._find(viewer)
        async with self.database.connection() as connection:
            assignments = await list_assignments_any_account(connection, transfer)
            returns = await list_returns_of_transfer_any_account(connection, transfer.id)
            suggested = await suggest_matches_any_account(connection, viewer.mode, [transfer], per_transfer=8)
            splits = await suggest_splits_any_account(connection, [transfer])
            payouts = await list_open_payouts(connection, viewer.mode, transfer.currency, transfer.rest_minor)
            people = await name_actors(connection, [transfer.imported_by, *(each.created_by for each in assignments)])
        return self.layout.page(
            viewer,
            "operator_transfer.html",
            form,
            tab="inbox",
            transfer=transfer,
            assignments=assignments,
            undoable=[each for each in assignments if not each.undone],
            returns=returns,
            suggested=suggested.get(transfer.id, []),
            split=splits.get(transfer.id),
            payouts=payouts if transfer.amount_minor > 0 and transfer.rest_minor > 0 else [],
            people=people,
            entered={name: form.value(name) for name in _FIELDS},
            may_decide=transfer.rest_minor > 0 and transfer.state in {"unmatched", "overpaid"},
            may_pay=transfer.amount_minor > 0,
        )


def _note(form: Form, name: str) -> str:
    return form.text(name, "Say what was done and why, for the audit log.", longest=MAX_NOTE)


def _optional(form: Form, name: str) -> str:
    return form.text(name, "", longest=MAX_NOTE) if form.value(name) else ""


def _amount(form: Form, name: str, transfer: Transfer) -> int | None:
    """None if the field is empty: as much as possible."""
    if not form.value(name):
        return None
    number = parse_decimal(form.value(name))
    minor = None if number is None else scaled(number, DECIMALS[transfer.currency])
    if not minor or minor < 0:
        form.fail(name, f"Enter an amount in {transfer.currency}, such as 12.61, or leave the field empty.")
    return minor
