"""tonne refund, tonne dispute and tonne order refund"""

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import STATUS_STYLES, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, REASON, EnumChoice
from tonne.apps.cli.selling.login import approve_or_link
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.refunds.approve_refund import approve_refund, decline_refund, retry_refund, settle_refund
from tonne.money.refunds.disputes.dispute_store import (
    DisputeSearch,
    find_dispute_any_account,
    search_disputes_any_account,
)
from tonne.money.refunds.errors import DisputeNotFound, RefundNotFound
from tonne.money.refunds.model import Dispute, Refund, RefundMethod, RefundState
from tonne.money.refunds.request_refund import RefundRequest, parse_amount, request_refund
from tonne.money.refunds.store import RefundSearch, find_refund_any_account, search_refunds_any_account
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order
from tonne.selling.orders.scope_store import find_scope_any_account
from tonne.selling.users.approvals import Approver

_LIMIT = click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
REFUND_COLUMNS: tuple[ValueColumn[Refund], ...] = (
    ValueColumn("id", lambda each: each.id, head="refund"),
    ValueColumn("state", lambda each: each.state, styles={**STATUS_STYLES, "approval": "yellow", "due": "yellow"}),
    *columns("amount_minor", "method", "created_at: requested", "order_id: order", "attempt", "purpose"),
    ValueColumn("reason", lambda each: each.reason, shrinks=True),
    *columns("charge_id: charge", "scope.mode", "scope.account_id", in_table=False),
)
REFUND_FACTS: tuple[ValueColumn[Refund], ...] = (
    *REFUND_COLUMNS[:9],
    *columns("message", "requested_by", "approved_by", "next_attempt_at: next attempt", "settled_at: settled"),
    *columns("repeats", "reference: at the gateway", "charge_id: charge"),
    ValueColumn("returns", lambda each: each.return_ids),
    *columns("scope.mode", "scope.account_id: account", "scope.organisation_id: organisation"),
)
DISPUTE_COLUMNS: tuple[ValueColumn[Dispute], ...] = (
    ValueColumn("id", lambda each: each.id, head="dispute"),
    ValueColumn("state", lambda each: each.state, styles={**STATUS_STYLES, "opened": "red"}),
    *columns("amount_minor", "reason", "evidence_due", "opened_at: opened", "order_id: order"),
    *columns("closed_at", "reference", "scope.mode", in_table=False),
)
DISPUTE_FACTS: tuple[ValueColumn[Dispute], ...] = (
    *DISPUTE_COLUMNS[:7],
    *columns("closed_at: closed", "withdrawn_minor: taken back", "reference: at the gateway", "charge_id: charge"),
    *columns("scope.mode", "scope.account_id: account", "scope.organisation_id: organisation"),
)


@click.group("refund")
def refund_group() -> None:
    """List, show, approve, decline, retry and settle refunds."""


@refund_group.command("list")
@click.option("--mode", type=MODE, help="Only refunds of this mode.")
@click.option("--state", type=EnumChoice(RefundState), help="Only refunds in this state.")
@click.option("--order", "order_id", help="Only refunds of this order.")
@click.option("--org", "organisation_id", help="Only refunds of this organisation.")
@_LIMIT
@output_options
def list_refunds(limit: int, output: Output, **filters: str | None) -> None:
    """List the newest refunds of all organisations."""
    found = run_in_transaction(lambda tx: search_refunds_any_account(tx, RefundSearch(**filters), limit))
    output.print_rows(found, REFUND_COLUMNS, empty="No refund matches.")


@refund_group.command("show")
@click.argument("refund_id")
@output_options
def show_refund(refund_id: str, output: Output) -> None:
    """Show a refund, who requested it, and what the gateway says."""

    output.print_object(run_in_transaction(_require, refund_id), REFUND_FACTS)


async def _require(tx: Connection, refund_id: str) -> Refund:
    found = await find_refund_any_account(tx, refund_id)
    if found is None:
        raise RefundNotFound(f"There is no refund {refund_id}. Run `tonne refund list` to see all refunds.")
    return found


@refund_group.command("approve")
@click.argument("refund_id")
def approve(refund_id: str) -> None:
    """Print the link to approve a refund.

    Refunds above TONNE_REFUND_APPROVAL_ABOVE wait for it. With TONNE_APPROVALS_BY=token, and after `tonne login`, the
    command approves it.
    """

    async def find_page(tx: Connection) -> tuple[Mode, str]:
        return (await _require(tx, refund_id)).scope.mode, f"money/refunds/{refund_id}"

    async def work(tx: Connection, approver: Approver) -> Refund:
        return await approve_refund(tx, refund_id, approver=approver, now=utc_now())

    made = approve_or_link(find_page, work)
    if made is not None:
        then = "is approved" if made.approved_by else "waits for another person, who must approve it, too"
        click.echo(f"Refund {made.id} of {_money(made)} {then}.")


@refund_group.command("decline")
@click.argument("refund_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the refund and the audit log.")
def decline(refund_id: str, reason: str) -> None:
    """Decline a refund that waits for an approval. No money moves.

    The refund of a cancelled order is owed and cannot be declined.
    """
    declined = run_in_transaction(decline_refund, refund_id, reason, by=ACTOR.now())
    click.echo(f"Refund {declined.id} of {_money(declined)} is declined. The amount can be refunded again later.")


@refund_group.command("retry")
@click.argument("refund_id")
def retry(refund_id: str) -> None:
    """Let the worker repeat a refund by card now.

    Otherwise it is repeated at the time that `tonne refund show` names.
    """
    due = run_in_transaction(retry_refund, refund_id, by=ACTOR.now())
    click.echo(f"Refund {due.id} of {_money(due)} is due now.")


@refund_group.command("settle")
@click.argument("refund_id")
@click.option("--note", type=REASON, required=True, help="How the money went back, for the audit log.")
def settle(refund_id: str, note: str) -> None:
    """Record that a refund was paid back by other means. Moves no money.

    For a refund that keeps failing, or of an invoice that was settled by hand. Send the money back before. Refused
    while the gateway or the bank may still make the refund.
    """
    settled = run_in_transaction(settle_refund, refund_id, note, by=ACTOR.now())
    click.echo(f"Refund {settled.id} of {_money(settled)} is settled.")


@click.group("dispute")
def dispute_group() -> None:
    """List and show payments that payers dispute at their banks."""


@dispute_group.command("list")
@click.option("--mode", type=MODE, help="Only disputes of this mode.")
@click.option("--state", type=EnumChoice(DisputeState), help="Only disputes in this state.")
@click.option("--order", "order_id", help="Only disputes of this order.")
@_LIMIT
@output_options
def list_disputes(limit: int, output: Output, **filters: str | None) -> None:
    """List the newest disputes of all organisations."""
    found = run_in_transaction(lambda tx: search_disputes_any_account(tx, DisputeSearch(**filters), limit))
    output.print_rows(found, DISPUTE_COLUMNS, empty="No dispute matches.")


@dispute_group.command("show")
@click.argument("dispute_id")
@output_options
def show_dispute(dispute_id: str, output: Output) -> None:
    """Show a dispute. Answer it at the gateway, before the evidence is due."""

    async def work(tx: Connection) -> Dispute:
        found = await find_dispute_any_account(tx, dispute_id)
        if found is None:
            raise DisputeNotFound(f"There is no dispute {dispute_id}. Run `tonne dispute list` to see all disputes.")
        return found

    output.print_object(run_in_transaction(work), DISPUTE_FACTS)


@click.command("refund")
@click.argument("order_id")
@click.option("--amount", help="How much, such as 5.00. Leave it out to refund all that is left.")
@click.option("--reason", type=REASON, required=True, help="Why, for the refund and the audit log.")
def refund_order(order_id: str, amount: str | None, reason: str) -> None:
    """Refund a paid order, wholly or in part. Its status and its tonnes do not change.

    A payment by card goes back to the card, one by bank transfer to the account that it came from. To cancel a paid
    order as well, use `tonne order cancel --refund`.
    """
    settings = settings_from_environment()

    async def work(tx: Connection) -> Refund:
        scope = await find_scope_any_account(tx, order_id)
        order = None if scope is None else await load_order(tx, scope, order_id)
        if order is None:
            raise OrderNotFound
        minor = None if amount is None else parse_amount(amount, order.currency)
        asked = RefundRequest(amount_minor=minor, reason=reason)
        return await request_refund(tx, order.scope, order_id, asked, settings=settings, by=ACTOR.now())

    found = run_in_transaction(work)
    then = "is made by the worker"
    if found.state is RefundState.APPROVAL:
        then = f"waits until another person approves it: `tonne refund approve {found.id}` prints the link"
    elif found.method is RefundMethod.BANK:
        then = "goes back by bank: see `tonne refund show`"
    click.echo(f"Refund {found.id} of {_money(found)} {then}.")


def _money(refund: Refund) -> str:
    return f"{format_money(refund.amount_minor, refund.currency)} {refund.currency}"
