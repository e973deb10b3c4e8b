"""What waits for a second person: who asked for it, and from which to which account the money would go."""

from datetime import datetime

from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.money.accounting.books.close_month import reopening_subject
from tonne.money.accounting.books.month_store import list_closed
from tonne.money.bank.return_store import list_open_returns_any_account
from tonne.money.bank.transfer_store import find_transfers_any_account
from tonne.money.invoices.write_off_store import WriteOffState, list_write_offs_any_account
from tonne.money.refunds.model import RefundMethod, RefundState
from tonne.money.refunds.store import list_open_any_account
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.context import Mode
from tonne.selling.accounts.directory import find_names_any_account
from tonne.selling.users.approvals import ApprovalKind, Subject, find_approvals
from tonne.selling.users.guarded_settings import approved_settings, list_guarded
from tonne.selling.users.names import name_actors
from tonne.supply.registries.settle_request import read_settlement, subject_of
from tonne.supply.registries.settlement_store import list_waiting

# Of each kind. More follow as soon as some are decided.
MOST = 200
KINDS = {
    ApprovalKind.REFUND: "Refund",
    ApprovalKind.RETURN: "Return",
    ApprovalKind.WRITE_OFF: "Write-off",
    ApprovalKind.REOPENING: "Reopening of a month",
    ApprovalKind.BANK_IBAN: "Bank account of the service",
    ApprovalKind.LIMIT: "Limit of the service",
    ApprovalKind.REGISTRY_REQUEST: "Result of a request to a registry",
}


class WaitingApproval(Struct, frozen=True, kw_only=True):
    """`path` is that of the page on which it is approved. Accounts are texts; None where no money moves."""

    subject: Subject
    path: str
    amount_minor: int | None = None
    currency: str = ""
    reason: str
    # None if only the audit log has it.
    requested_at: datetime | None = None
    from_account: str | None = None
    to_account: str | None = None
    is_other_account: bool = False


class ApprovalsPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/money/approvals": self.show})

    async def show(self, viewer: OperatorViewer) -> Response:
        async with self.database.connection() as connection:
            settings = await approved_settings(connection, self.settings)
            waiting = await _list_waiting(connection, viewer.mode, settings.return_approval_above)
            waiting += await _list_settings(connection)
            given: dict[str, list[str]] = {}
            for kind in KINDS:
                subjects = {each.subject.id: each.subject for each in waiting if each.subject.kind is kind}
                for approval in await find_approvals(connection, kind, list(subjects)):
                    if approval.digest == subjects[approval.subject_id].digest:
                        given.setdefault(approval.subject_id, []).append(approval.approved_by)
            actors = [each.subject.requested_by for each in waiting]
            people = await name_actors(connection, [*actors, *(name for names in given.values() for name in names)])
            organisations = {each.subject.organisation_id for each in waiting} - {None}
            names = await find_names_any_account(connection, sorted(filter(None, organisations)))
        return self.layout.page(
            viewer,
            "operator_approvals.html",
            tab="approvals",
            waiting=[(each, given.get(each.subject.id, [])) for each in waiting],
            me=str(viewer.actor),
            kinds=KINDS,
            people=people,
            names=names,
        )


async def _list_settings(connection: Connection) -> list[WaitingApproval]:
    """With the value that applies, and the one that the service is configured with."""
    return [
        WaitingApproval(
            subject=subject,
            path="/books#guarded",
            reason=each.name,
            requested_at=each.requested_at,
            from_account=each.value or "Not set",
            to_account=each.requested or "Not set",
            is_other_account=True,
        )
        for each in await list_guarded(connection)
        if (subject := each.subject) is not None
    ]


async def _list_waiting(connection: Connection, mode: Mode, return_limit: int) -> list[WaitingApproval]:
    """Oldest first."""
    refunds = [
        WaitingApproval(
            subject=each.subject,
            path=f"/money/refunds/{each.id}",
            amount_minor=each.amount_minor,
            currency=each.currency,
            reason=each.reason,
            requested_at=each.created_at,
            to_account="The card that paid" if each.method is RefundMethod.CARD else "The account that paid",
        )
        for each in await list_open_any_account(connection, mode, MOST)
        if each.state is RefundState.APPROVAL
    ]
    open_returns = await list_open_returns_any_account(connection, mode)
    held = [each for each in open_returns if each.waits_for_approval(return_limit)][:MOST]
    paid_from = {
        each.id: f"{each.payer_iban or 'Account not known'} {each.payer}"
        for each in await find_transfers_any_account(connection, [each.transfer_id for each in held])
    }
    returns = [
        WaitingApproval(
            subject=each.subject,
            path=f"/money/returns/{each.id}",
            amount_minor=each.amount_minor,
            currency=each.currency,
            reason=each.reason,
            requested_at=each.created_at,
            from_account=paid_from[each.transfer_id],
            to_account=f"{each.to_iban} {each.to_name}",
            is_other_account=each.to_other_account,
        )
        for each in held
    ]
    write_offs = [
        WaitingApproval(
            subject=each.subject,
            path=f"/money/invoices/{each.invoice_reference}",
            amount_minor=each.left_minor,
            currency=each.currency,
            reason=each.reason,
            requested_at=each.requested_at,
        )
        for each in await list_write_offs_any_account(
            connection, mode, state=WriteOffState.APPROVAL, organisation_id=None, limit=MOST
        )
    ]
    settlements = [
        WaitingApproval(
            subject=subject_of(each),
            path=f"/registries/requests/{each.request_id}",
            reason=read_settlement(each).text,
            requested_at=each.requested_at,
        )
        for each in await list_waiting(connection, mode)
    ]
    by_time = sorted([*refunds, *returns, *write_offs, *settlements], key=lambda each: str(each.requested_at))
    # Only the last closed month can be reopened.
    months = [(each, reopening_subject(each)) for each in await list_closed(connection, mode, 1)]
    return by_time + [
        WaitingApproval(subject=subject, path=f"/month-end/{each.month:%Y-%m}", reason=f"{each.month:%B %Y}: {reason}")
        for each, subject in months
        if subject is not None and (reason := each.reopen_reason)
    ]
