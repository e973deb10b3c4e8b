"""Refunds by bank: planned as returns of the transfers that paid the invoice, and done when the bank has sent them."""

from datetime import datetime, timedelta

import structlog

from tonne.money.bank.errors import ReturnInvalid
from tonne.money.bank.return_store import find_returns_any_account, list_returns_of_payment_any_account
from tonne.money.bank.return_transfer import fail_return, plan_return
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus
from tonne.money.invoices.store import find_invoice, lock_invoices_any_account
from tonne.money.refunds import store
from tonne.money.refunds.model import Refund, RefundState, renewed
from tonne.money.refunds.order_money import OrderMoney, add_refund, change_refund, lock_money, settle
from tonne.money.refunds.store import claim_bank_refunds, store_returns, wake_bank_refund_any_account
from tonne.platform.db.batches import RowJob, run_each
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By, Mode, job_actor, replace
from tonne.selling.orders.model import Order

BATCH = 50
# How often a worker looks whether the bank has sent the money.
LOOK_EVERY = timedelta(minutes=10)
ACTOR = job_actor("settle_bank_refunds")
BY_HAND = (
    "No transfer on record paid this invoice, so nothing can be returned automatically. Send the money back, then run "
    "`tonne refund settle`."
)
_OPEN = {ReturnStatus.PLANNED, ReturnStatus.EXPORTED}

_log = structlog.get_logger()


async def plan_bank_refund(tx: Connection, money: OrderMoney, refund: Refund, *, by: By) -> None:
    """Plan the returns of a due refund. An invoice that was settled by hand has no transfers: a person pays it back."""
    planned = await _plan_returns(tx, money.order, refund, by=by)
    message = None if planned or refund.scope.mode is Mode.TEST else BY_HAND
    at = by.at if planned or refund.scope.mode is Mode.TEST else None
    new = replace(refund, return_ids=tuple(each.id for each in planned), message=message, next_attempt_at=at)
    await store_returns(tx, new)
    money.refunds = store.with_update(money.refunds, new)


async def _plan_returns(tx: Connection, order: Order, refund: Refund, *, by: By) -> list[BankReturn]:
    found = await find_invoice(tx, order.scope, order.id)
    if found is None:
        return []
    [invoice] = await lock_invoices_any_account(tx, [found.id])
    try:
        return await plan_return(tx, invoice, refund.amount_minor, reason=refund.reason, by=by)
    except ReturnInvalid:
        return []


async def fail_refund_return(
    tx: Connection, return_id: str, note: str, *, incoming_id: str | None = None, by: By
) -> BankReturn:
    """Record that a return was not paid, or came back. A worker then repeats the refunds that its payment made."""
    # Before the transfer is locked: see the lock order.
    for each in await list_returns_of_payment_any_account(tx, return_id):
        await wake_bank_refund_any_account(tx, each.id, by.at)
    return await fail_return(tx, return_id, note, incoming_id=incoming_id, by=by)


class SettleBankRefunds(RowJob, frozen=True):
    """A worker job: a refund by bank has succeeded when the bank has booked all its returns."""

    async def run_once(self) -> bool:
        """False if no refund is to be looked at."""
        now = self.clock()
        due = await self.database.commit(claim_bank_refunds, now, now + LOOK_EVERY, limit=BATCH)
        return await run_each(
            due,
            self._look,
            failure_event="refund_not_settled",
            describe=lambda refund: {"refund_id": refund.id},
        )

    async def _look(self, claimed: Refund) -> None:
        now = self.clock()
        async with self.database.transaction() as tx:
            money = await lock_money(tx, claimed.scope, claimed.order_id)
            refund = None if money is None else next((r for r in money.refunds if r.id == claimed.id), None)
            if money is None or refund is None or refund.state not in {RefundState.DUE, RefundState.SUCCEEDED}:
                return
            returns = await find_returns_any_account(tx, refund.return_ids)
            if any(each.status in _OPEN for each in returns):
                return
            # A return of a refund that had succeeded may have come back.
            if all(each.status is ReturnStatus.RETURNED for each in returns):
                settled_at = refund.settled_at or now
                done = replace(
                    refund, state=RefundState.SUCCEEDED, settled_at=settled_at, next_attempt_at=None, message=None
                )
                await change_refund(tx, money, done, "refund.succeeded", by=ACTOR.at(now))
            else:
                await self._repeat(tx, money, refund, returns, now)
            await settle(tx, money, by=ACTOR.at(now))

    async def _repeat(
        self, tx: Connection, money: OrderMoney, refund: Refund, returns: list[BankReturn], now: datetime
    ) -> None:
        """The bank did not make all returns, or somebody cancelled one. What went back counts, the rest is repeated."""
        sent = sum(each.amount_minor for each in returns if each.status is ReturnStatus.RETURNED)
        _log.error("refund_not_made", refund_id=refund.id, order_id=refund.order_id, sent_minor=sent)
        message = "A return was cancelled, or the bank rejected it."
        over = replace(refund, state=RefundState.FAILED, settled_at=now, next_attempt_at=None, message=message)
        await change_refund(tx, money, over, "refund.failed", by=ACTOR.at(now))
        if sent:
            sent_ids = tuple(each.id for each in returns if each.status is ReturnStatus.RETURNED)
            kept = _part_of(refund, sent, now)
            kept = replace(kept, state=RefundState.SUCCEEDED, settled_at=now, repeats=None, return_ids=sent_ids)
            await add_refund(tx, money, kept, actor=ACTOR)
        rest = _part_of(refund, refund.amount_minor - sent, now)
        rest = replace(rest, repeats=refund.id, attempt=refund.attempt + 1)
        await add_refund(tx, money, rest, actor=ACTOR)
        await plan_bank_refund(tx, money, rest, by=ACTOR.at(now))


def _part_of(refund: Refund, amount_minor: int, now: datetime) -> Refund:
    """A new refund of a part of another one."""
    return replace(renewed(refund, now), amount_minor=amount_minor, return_ids=())
