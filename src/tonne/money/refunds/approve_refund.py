"""What operators decide about refunds: approve or decline one, settle one by hand, or repeat one at once."""

from datetime import datetime

from tonne.money.bank.return_store import find_returns_any_account
from tonne.money.bank.transfer_model import ReturnStatus
from tonne.money.refunds.errors import RefundNotFound, RefundNotSettleable, RefundNotWaiting, RefundOwed
from tonne.money.refunds.model import Refund, RefundMethod, RefundPurpose, RefundState
from tonne.money.refunds.order_money import OrderMoney, change_refund, entry_of, lock_money, settle
from tonne.money.refunds.request_refund import release_refund
from tonne.money.refunds.store import find_refund_any_account, lock_sent_at
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import record_all
from tonne.platform.values.context import By, replace
from tonne.selling.orders.model import OrderStatus
from tonne.selling.users.approvals import Approver, approve


async def approve_refund(tx: Connection, refund_id: str, *, approver: Approver, now: datetime) -> Refund:
    """Release a refund above the limit, unless another person must approve it, too. Raises SecondPersonNeeded."""
    money, refund = await lock_refund(tx, refund_id)
    if refund.state is not RefundState.APPROVAL:
        raise RefundNotWaiting(f"Refund {refund.id} does not wait for an approval: it is {refund.state}.")
    if await approve(tx, refund.subject, approver, now):
        return refund
    at = now if refund.method is RefundMethod.CARD else None
    approved = replace(refund, state=RefundState.DUE, approved_by=str(approver.actor), next_attempt_at=at)
    by = approver.actor.at(now)
    await change_refund(tx, money, approved, "refund.approved", by=by)
    await release_refund(tx, money, approved, by=by)
    return approved


async def settle_refund(tx: Connection, refund_id: str, note: str, *, by: By) -> Refund:
    """Record that the money was sent back by other means. Call it last in the transaction.

    Raises RefundNotSettleable if the gateway or the bank may still make the refund: the money would go back twice.
    """
    money, refund = await lock_refund(tx, refund_id)
    is_by_hand = refund.method is RefundMethod.BANK and not refund.return_ids
    if refund.state is not RefundState.DUE or not (is_by_hand or refund.attempt > 1):
        raise RefundNotWaiting(
            f"Refund {refund.id} is {refund.state}, and is made automatically. Only a refund that failed, or one by "
            "bank of an invoice that was settled by hand, can be settled."
        )
    if refund.method is RefundMethod.CARD:
        await _require_unsent(tx, refund)
    else:
        await _require_no_return(tx, refund)
    settled = replace(refund, state=RefundState.SUCCEEDED, settled_at=by.at, next_attempt_at=None, message=note)
    await change_refund(tx, money, settled, "refund.settled", by=by)
    await settle(tx, money, by=by)
    return settled


async def _require_unsent(tx: Connection, refund: Refund) -> None:
    """A worker may claim the refund without locking the order, so its row is locked before `sent_at` is read."""
    if await lock_sent_at(tx, refund) is not None:
        raise RefundNotSettleable(
            f"Refund {refund.id} may still be at the gateway: its answer is not known. Run `tonne refund retry "
            f"{refund.id}`; the worker then asks the gateway. If the gateway has rejected the refund, settle the next "
            f"attempt, which `tonne refund list --order {refund.order_id}` shows."
        )


async def _require_no_return(tx: Connection, refund: Refund) -> None:
    for each in await find_returns_any_account(tx, refund.return_ids):
        if each.status not in {ReturnStatus.FAILED, ReturnStatus.CANCELLED}:
            raise RefundNotSettleable(
                f"Return {each.id} of refund {refund.id} is {each.status}. If the money went back, record that with "
                f"`tonne transfer returned {each.id}`; the refund then succeeds."
            )


async def retry_refund(tx: Connection, refund_id: str, *, by: By) -> Refund:
    """Make a card refund due now, or the attempt that repeats it. Nothing is refunded twice."""
    money, refund = await lock_refund(tx, refund_id)
    waiting = next((each for each in money.refunds if each.repeats == refund.id), refund)
    while later := next((each for each in money.refunds if each.repeats == waiting.id), None):
        waiting = later
    if waiting.method is not RefundMethod.CARD or waiting.state not in {RefundState.DUE, RefundState.PENDING}:
        raise RefundNotWaiting(f"Refund {waiting.id} is {waiting.state}, so there is nothing to repeat.")
    due = replace(waiting, next_attempt_at=by.at)
    await change_refund(tx, money, due, "refund.retried", by=by)
    entry = replace(entry_of(due, "refund.retried", before=None), after=None)
    await record_all(tx, [entry], by=by)
    return due


async def lock_refund(tx: Connection, refund_id: str) -> tuple[OrderMoney, Refund]:
    """Lock the order of a refund. Raises RefundNotFound."""
    found = await find_refund_any_account(tx, refund_id)
    money = None if found is None else await lock_money(tx, found.scope, found.order_id)
    if money is None:
        raise RefundNotFound(f"There is no refund {refund_id}. Run `tonne refund list` to see all refunds.")
    return money, next(each for each in money.refunds if each.id == refund_id)


async def decline_refund(tx: Connection, refund_id: str, reason: str, *, by: By) -> Refund:
    """End the refund without sending money. Its amount can be refunded again later.

    Any operator may do it, also the one who requested the refund: no money moves. Raises RefundOwed if the order is
    cancelled: the payment of a cancelled order always goes back, and by bank a credit note says so already.
    """
    money, refund = await lock_refund(tx, refund_id)
    if refund.state is not RefundState.APPROVAL:
        raise RefundNotWaiting(f"Refund {refund.id} does not wait for an approval: it is {refund.state}.")
    if refund.purpose is RefundPurpose.REDUCTION:
        raise RefundOwed(f"Order {refund.order_id} was reduced, so refund {refund.id} is to be approved.")
    if money.order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
        raise RefundOwed(
            f"Order {refund.order_id} is {money.order.status}, so its payment goes back. Refund {refund.id} is "
            "to be approved."
        )
    message = f"Declined: {reason}"
    declined = replace(refund, state=RefundState.CANCELLED, settled_at=by.at, message=message)
    await change_refund(tx, money, declined, "refund.declined", by=by)
    return declined
