"""Refunds and disputes: what waits for an operator, what is under way, and what to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording, Work, approval
from tonne.apps.dashboard.list_place import place_of, read_moment
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.refunds.approve_refund import approve_refund, decline_refund, retry_refund, settle_refund
from tonne.money.refunds.disputes.decide_tax import TaxDecision, decide_tax
from tonne.money.refunds.disputes.dispute_store import (
    find_dispute_any_account,
    has_open_tax,
    list_disputes_of_mode_any_account,
)
from tonne.money.refunds.model import Dispute, Refund, RefundMethod, RefundState
from tonne.money.refunds.store import find_refund_any_account, list_open_any_account, list_refunds_of_mode_any_account
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_money
from tonne.selling.accounts.directory import find_names_any_account
from tonne.selling.users.names import name_actors

PAGE = 30
# Refunds that wait or are under way. More follow as soon as some of them are done.
MOST_OPEN = 200
MAX_REASON = 500
ONE = "/money/refunds/{refund_id}"
DISPUTE = "/money/disputes/{dispute_id}"
END = datetime(9999, 1, 1, tzinfo=UTC)
STATES = {
    RefundState.APPROVAL: ("Waits for a second operator", "warn"),
    RefundState.DUE: ("Due", "warn"),
    RefundState.PENDING: ("Under way", ""),
    RefundState.SUCCEEDED: ("Paid back", ""),
    RefundState.FAILED: ("Failed", "bad"),
    RefundState.CANCELLED: ("Not made", ""),
}
DISPUTES = {
    DisputeState.OPENED: ("Open", "bad"),
    DisputeState.WON: ("Won", ""),
    DisputeState.LOST: ("Lost", "warn"),
}
SOON = timedelta(days=3)
CREDIT_TAX, KEEP_TAX = "Correct the tax (credit note)", "Keep the tax"


class RefundsPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={
                "/money/refunds": self.show,
                ONE: self.show_refund,
                "/money/disputes": self.list_disputes,
                DISPUTE: self.show_dispute,
            },
            forms={
                f"{ONE}/approve": self.approve,
                f"{ONE}/decline": self.decline,
                f"{ONE}/retry": self.retry,
                f"{ONE}/settle": self.settle,
                f"{DISPUTE}/credit-tax": self.credit_tax,
                f"{DISPUTE}/keep-tax": self.keep_tax,
            },
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        [after] = viewer.request.query("after")
        async with self.database.connection() as connection:
            waiting = [] if after else await list_open_any_account(connection, viewer.mode, MOST_OPEN)
            found = await list_refunds_of_mode_any_account(connection, viewer.mode, read_moment(after, END), PAGE + 1)
            done = found[:PAGE]
            names = await find_names_any_account(connection, [each.scope.organisation_id for each in (*waiting, *done)])
        return self.layout.page(
            viewer,
            "operator_refunds.html",
            tab="refunds",
            approvals=[each for each in waiting if each.state is RefundState.APPROVAL],
            under_way=[each for each in waiting if each.state is not RefundState.APPROVAL],
            done=done,
            is_first=not after,
            next_after=place_of(done[-1].created_at, done[-1].id) if len(found) > PAGE else None,
            names=names,
            states=STATES,
        )

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        found, now = await self._find(viewer), self.clock()
        by_bank = "It is planned as a return: export it under Returns."
        then = "The worker sends it to the card gateway." if found.method is RefundMethod.CARD else by_bank
        effects = [f"{_money(found)} go back to the payer of order {found.order_id}.", then]
        words = approval("Approve the refund", "refund_approved", lambda _: effects)
        return await self._take(
            viewer, form, words, lambda tx: approve_refund(tx, found.id, approver=viewer.approver(now), now=now)
        )

    async def decline(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        reason = form.text("reason", "Say why, for the refund and the audit log.", longest=MAX_REASON)
        effects = [f"{_money(found)} do not go back. The amount can be refunded again later."]
        words = Wording("Decline the refund", "refund_declined", effects)
        return await self._take(viewer, form, words, lambda tx: decline_refund(tx, found.id, reason, by=by))

    async def retry(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        effects = ["The worker asks the card gateway now. Nothing is refunded twice."]
        words = Wording("Try again now", "refund_retried", effects)
        return await self._take(viewer, form, words, lambda tx: retry_refund(tx, found.id, by=by))

    async def settle(self, viewer: OperatorViewer, form: Form) -> Response:
        found, by = await self._find(viewer), viewer.actor.at(self.clock())
        note = form.text("note", "Say how the money went back, for the audit log.", longest=MAX_REASON)
        effects = [
            f"{_money(found)} count as paid back. No money moves: send it back before you confirm.",
            "The refund is not tried again.",
        ]
        words = Wording("Record as paid back", "refund_settled", effects)
        return await self._take(viewer, form, words, lambda tx: settle_refund(tx, found.id, note, by=by))

    async def list_disputes(self, viewer: OperatorViewer) -> Response:
        [after] = viewer.request.query("after")
        async with self.database.connection() as connection:
            found = await list_disputes_of_mode_any_account(connection, viewer.mode, read_moment(after, END), PAGE + 1)
            shown = found[:PAGE]
            names = await find_names_any_account(connection, [each.scope.organisation_id for each in shown])
        return self.layout.page(
            viewer,
            "operator_disputes.html",
            tab="disputes",
            disputes=[(each, self._deadline(each)) for each in shown],
            names=names,
            states=DISPUTES,
            next_after=place_of(shown[-1].recorded_at, shown[-1].id) if len(found) > PAGE else None,
        )

    async def credit_tax(self, viewer: OperatorViewer, form: Form) -> Response:
        effects = [
            "A credit note takes the tax back, and the loss is smaller by it.",
            "Ask your tax adviser: not every country allows it.",
        ]
        return await self._decide(viewer, form, TaxDecision.CREDITED, Wording(CREDIT_TAX, "tax_decided", effects))

    async def keep_tax(self, viewer: OperatorViewer, form: Form) -> Response:
        words = Wording(KEEP_TAX, "tax_decided", ["No document is issued. The tax of the sale stays booked."])
        return await self._decide(viewer, form, TaxDecision.KEPT, words)

    async def _decide(self, viewer: OperatorViewer, form: Form, decision: TaxDecision, words: Wording) -> Response:
        found, by = await self._find_dispute(viewer), viewer.actor.at(self.clock())
        back = f"{viewer.base}/money/disputes/{found.id}"
        return await self.take_step(
            viewer,
            form,
            words,
            lambda tx: decide_tax(tx, found.id, decision, by=by),
            show_faults=self.show_dispute,
            back=back,
        )

    async def _find_dispute(self, viewer: OperatorViewer) -> Dispute:
        """Only of the viewer's mode."""
        found = await self.database.run(find_dispute_any_account, viewer.request.path("dispute_id"))
        if found is None or found.scope.mode is not viewer.mode:
            raise DashboardPageNotFound
        return found

    async def show_dispute(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        found = await self._find_dispute(viewer)
        async with self.database.connection() as connection:
            is_tax_open = await has_open_tax(connection, found)
            scope = found.scope
            names = await find_names_any_account(connection, [scope.organisation_id, scope.account_id])
        return self.layout.page(
            viewer,
            "operator_dispute.html",
            form or Form(),
            tab="disputes",
            is_tax_open=is_tax_open,
            credit_tax=CREDIT_TAX,
            keep_tax=KEEP_TAX,
            dispute=found,
            deadline=self._deadline(found),
            names=names,
            state=DISPUTES[found.state],
        )

    def _deadline(self, dispute: Dispute) -> tuple[str, str] | None:
        """How long there is to answer an open dispute, in words, with the tone of the badge."""
        if dispute.state is not DisputeState.OPENED or dispute.evidence_due is None:
            return None
        left = dispute.evidence_due - self.clock()
        if left < timedelta():
            return "The deadline has passed", "bad"
        if left < timedelta(days=1):
            hours = max(1, int(left.total_seconds() // 3600))
            return f"{hours} {'hour' if hours == 1 else 'hours'} left", "bad"
        return f"{left.days} {'day' if left.days == 1 else 'days'} left", "bad" if left < SOON else "warn"

    async def _find(self, viewer: OperatorViewer) -> Refund:
        """Only of the viewer's mode."""
        found = await self.database.run(find_refund_any_account, viewer.request.path("refund_id"))
        if found is None or found.scope.mode is not viewer.mode:
            raise DashboardPageNotFound
        return found

    async def _take(self, viewer: OperatorViewer, form: Form, words: Wording, work: Work[Any]) -> Response:
        back = f"{viewer.base}/money/refunds/{viewer.request.path('refund_id')}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show_refund, back=back)

    async def show_refund(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        found = await self._find(viewer)
        async with self.database.connection() as connection:
            scope = found.scope
            names = await find_names_any_account(connection, [scope.organisation_id, scope.account_id])
            people = await name_actors(connection, [found.requested_by, found.approved_by])
        is_by_hand = found.method is RefundMethod.BANK and not found.return_ids
        return self.layout.page(
            viewer,
            "operator_refund.html",
            form,
            tab="refunds",
            refund=found,
            state=STATES[found.state],
            names=names,
            people=people,
            may_approve=found.state is RefundState.APPROVAL,
            may_retry=found.method is RefundMethod.CARD and found.state in {RefundState.DUE, RefundState.PENDING},
            may_settle=found.state is RefundState.DUE and (is_by_hand or found.attempt > 1),
            entered={name: form.value(name) for name in ("note", "reason")},
        )


def _money(refund: Refund) -> str:
    return f"{format_money(refund.amount_minor, refund.currency)} {refund.currency}"
