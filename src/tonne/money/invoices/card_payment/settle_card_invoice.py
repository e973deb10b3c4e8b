"""Charge the stored cards of accounts for consolidated invoices, and record the results.

There is one charge for all orders of an invoice. The invoice is settled, charged again later, or its orders fail. The
test helper bills an order that a card pays together with others, and charges a working test card.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog
from msgspec import structs

from tonne.money.cards import charge_store, invoice_charge_store
from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.charge_cards import Answer, GatewayCalls
from tonne.money.cards.charges import GOOD_CARD, explain_decline, failure_reason_of, log_failure
from tonne.money.cards.errors import ChargeUnderWay
from tonne.money.cards.gateways.card import CardGateway, ChargeOutcome, ChargeResult
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.invoice_charge_store import (
    CardInvoice,
    count_invoice_tries_any_account,
    is_due_any_account,
    list_invoices_of_charge,
    schedule_invoices_any_account,
)
from tonne.money.cards.model import ChargeAttempt, ChargeStatus, ChargeUpdate, RetrySchedule, decide_charge
from tonne.money.cards.stored_cards.card_link_store import note_problems
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.collection_store import list_undelivered_any_account
from tonne.money.invoices.card_payment.pay_by_card import ACTOR, open_invoice_charge
from tonne.money.invoices.card_payment.take_collections import bill_collection
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_orders
from tonne.money.invoices.errors import InvoiceNotOpen, OrderPaidByCard
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account
from tonne.money.invoices.issuing.billing_store import remove_unbilled
from tonne.money.invoices.issuing.collect_orders import is_billed_together
from tonne.money.invoices.issuing.issue_invoices import bill_alone, issue_invoices
from tonne.money.invoices.issuing.joining_store import list_waiting
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceBilling, InvoiceStatus
from tonne.money.invoices.settle_difference import book_difference
from tonne.money.invoices.settle_invoice import (
    CHUNK,
    FULFILLED,
    mark_invoice_paid,
    pay_orders_any_account,
    settle_invoice,
)
from tonne.money.invoices.store import find_invoices_any_account
from tonne.platform.db.batches import RowJobWithSettings, run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, Scope, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.load import load_order, load_orders
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import (
    CancellationReason,
    FailureReason,
    HoldReason,
    Order,
    OrderKey,
    OrderStatus,
    PaymentState,
)
from tonne.selling.orders.move_order import Transitions, move_orders
from tonne.selling.orders.queue import lock_keys, lock_order, wake_held
from tonne.selling.orders.store import note_cancellation
from tonne.supply.stock.holds.hold_store import delete_of_orders


async def settle_invoice_charge(
    tx: Connection,
    attempt: ChargeAttempt,
    result: ChargeResult,
    now: datetime,
    schedule: RetrySchedule,
) -> None:
    """Call it last in the transaction. A charge that another worker has settled is left unchanged.

    A captured charge settles the invoices and pays all their orders. If they were closed meanwhile, the charge is
    refunded. After a decline the card is charged again according to the schedule, or the orders fail. A charge that
    the payer has to confirm stays pending.
    """
    scope = Scope(attempt.organisation_id, attempt.request.account_id, attempt.request.mode)
    ids = await list_invoices_of_charge(tx, scope, attempt.request.id)
    waiting = await list_waiting(tx, scope)
    await lock_keys(tx, [*(each.key for each in await find_order_keys_any_account(tx, ids)), *waiting])
    found = await store.find_invoices_any_account(tx, ids)
    is_wanted = any(invoice.status is InvoiceStatus.OPEN for invoice in found)
    update = decide_charge(attempt, result, is_wanted=is_wanted, now=now, schedule=schedule)
    settled = await charge_store.settle_charges(tx, [update])
    if update.id not in settled:
        return
    update = replace(update, status=settled[update.id])
    locked = await store.lock_invoices_any_account(tx, ids)
    invoices = [invoice for invoice in locked if invoice.status is InvoiceStatus.OPEN]
    log_failure(update, invoice=attempt.request.invoice_reference or "")
    if not is_wanted or update.status is ChargeStatus.MISMATCHED:
        return
    if update.status is ChargeStatus.CAPTURED:
        await _settle(tx, invoices, scope, update, attempt=attempt, now=now)
    elif update.is_surplus:
        await _end_unpaid(tx, invoices, [], reason="The payment was refunded at the card gateway.", now=now)
    elif update.status is ChargeStatus.PENDING:
        if update.needs_confirmation and attempt.confirm_until is None:
            await note_problems(tx, [scope], now)
    else:
        await _plan_retry(tx, invoices, waiting, attempt, update, now=now, schedule=schedule)


async def _settle(
    tx: Connection,
    invoices: Sequence[Invoice],
    scope: Scope,
    update: ChargeUpdate,
    *,
    attempt: ChargeAttempt,
    now: datetime,
) -> None:
    note, by = f"charge {update.id}", ACTOR.at(now)
    entries = [await mark_invoice_paid(tx, invoice, by_hand=False, by=by, note=note) for invoice in invoices]
    await audit.record_all(tx, entries, by=by)
    if update.captured_minor != sum(invoice.due_minor for invoice in invoices) and update.reference is not None:
        # An order was cancelled while the card was charged: a worker refunds what it costs.
        await request_checks_any_account(tx, attempt.gateway, [update.reference], now)
    kind, amount_minor = OrderMailKind.INVOICE_RECEIPT, attempt.request.amount_minor
    await add_mails(tx, [OrderMailRow(scope, invoices[0].first_order_id, kind, update.id, amount_minor)], now)
    if any(invoice.billing is InvoiceBilling.COLLECTED for invoice in invoices):
        await wake_held(tx, scope, HoldReason.COLLECTION_PENDING, now)
    await pay_orders_any_account(tx, [invoice.id for invoice in invoices], now)


async def _plan_retry(
    tx: Connection,
    invoices: Sequence[Invoice],
    waiting: Sequence[OrderKey],
    attempt: ChargeAttempt,
    update: ChargeUpdate,
    *,
    now: datetime,
    schedule: RetrySchedule,
) -> None:
    scope = Scope(attempt.organisation_id, attempt.request.account_id, attempt.request.mode)
    # They were charged together before, or are new.
    counts = await count_invoice_tries_any_account(tx, min(invoices, key=lambda each: each.number).id)
    delay = schedule.retry_delay(update.outcome, counts)
    is_first_decline = update.outcome is ChargeOutcome.DECLINED and counts.tries == 1
    if delay is None or is_first_decline:
        await note_problems(tx, [scope], now)
    if delay is not None:
        due_at = now + delay if await store.advances_by_itself(tx, scope) else None
        await schedule_invoices_any_account(tx, [invoice.id for invoice in invoices], due_at, is_retry=True)
        return
    named = ", ".join(invoice.reference for invoice in invoices)
    reason = f"Invoice {named} could not be charged. {explain_decline(update.code)}"
    await _end_unpaid(tx, invoices, waiting, reason=reason, now=now, failure=failure_reason_of(update.code))


async def _end_unpaid(
    tx: Connection,
    invoices: Sequence[Invoice],
    waiting: Sequence[OrderKey],
    *,
    reason: str,
    now: datetime,
    failure: FailureReason | None = None,
) -> None:
    """The card does not pay these locked invoices. Orders without credits end, with credit notes.

    Those that were placed fail; without `failure`, and if they were fulfilled first, they are cancelled, also those of
    `waiting` that have not joined a collection yet. What was delivered is owed: its invoice stays open, and a
    transfer, or another card, may pay it.
    """
    ids, by = [invoice.id for invoice in invoices], ACTOR.at(now)
    keys = await list_undelivered_any_account(tx, ids, waiting)
    for invoice in invoices:
        await credit_orders(tx, invoice, set(keys), cause=CreditCause.CANCELLATION, reason=reason, by=by)
    owed = [each.id for each in await store.find_invoices_any_account(tx, ids) if each.status is InvoiceStatus.OPEN]
    await schedule_invoices_any_account(tx, ids, None)
    await schedule_invoices_any_account(tx, owed, None, is_given_up=True)
    await store.set_payment_method_any_account(tx, owed, PaymentMethod.INVOICE, follow_up_at=now)
    for start in range(0, len(keys), CHUNK):
        orders = await load_orders(tx, keys[start : start + CHUNK])
        ended = [_ended(order, failure) for order in orders]
        cancelled = [order for order in ended if order.status is OrderStatus.CANCELLED]
        for order in cancelled:
            await note_cancellation(tx, order, actor=by.actor, reason=reason)
            await remove_unbilled(tx, order)
        await delete_of_orders(tx, [order.key for order in cancelled])
        await move_orders(tx, [Transitions(order, [to]) for order, to in zip(orders, ended, strict=True)], now)


def _ended(order: Order, failure: FailureReason | None) -> Order:
    if failure is not None and order.status is OrderStatus.PLACED:
        return structs.replace(order, status=OrderStatus.FAILED, failure_reason=failure)
    is_declined = failure is not None
    code = CancellationReason.COLLECTION_DECLINED if is_declined else CancellationReason.REFUNDED_AT_GATEWAY
    return structs.replace(order, status=OrderStatus.CANCELLED, cancellation_reason=code)


NOT_JOINED = "The order can still be cancelled and joins no invoice before. Release it, or wait until it is fulfilled."


async def simulate_card_invoice(
    database: Database, scope: Scope, order: Order, *, clock: Clock, settings: Settings
) -> Order:
    """In the same steps as a worker. All orders of the invoice are paid; an order without one gets its own."""
    schedule, now = RetrySchedule(settings), clock()
    attempt = await database.commit(_open, scope, order.id, schedule, clock=clock, settings=settings)
    if attempt is not None:
        result = await SimulatedCardGateway(database).charge(attempt.request)
        await database.commit(settle_invoice_charge, attempt, result, now, schedule)
    async with database.connection() as connection:
        return await load_order(connection, scope, order.id) or order


async def _open(
    tx: Connection, scope: Scope, order_id: str, schedule: RetrySchedule, *, clock: Clock, settings: Settings
) -> ChargeAttempt | None:
    """None if the order costs nothing, so that it was marked as paid."""
    now = clock()
    order = await lock_order(tx, scope, order_id)
    is_owed = order is not None and order.status in FULFILLED and order.payment_state is PaymentState.UNPAID
    if order is None or not (is_owed or order.status is OrderStatus.PLACED):
        raise InvoiceNotOpen("Only an order that is placed, or was fulfilled first, has an open invoice.")
    invoice = await store.find_invoice(tx, scope, order_id)
    if invoice is None:
        if not is_billed_together(order):
            raise OrderPaidByCard
        if order.is_in_window(now):
            raise InvoiceNotOpen(NOT_JOINED)
        if not is_owed:
            await issue_invoices(tx, [order], settings, now)
        invoice = await bill_alone(tx, order, settings, now)
    if invoice is None:
        return None
    held_until = now + schedule.lease()
    attempt = await open_invoice_charge(
        tx, CardInvoice(scope, invoice.id), now=now, held_until=held_until, card=GOOD_CARD
    )
    if attempt is None:
        raise ChargeUnderWay
    return attempt


async def open_or_close(
    tx: Connection, card_invoice: CardInvoice, settings: Settings, *, now: datetime, held_until: datetime
) -> ChargeAttempt | None:
    """Open the charge of an invoice, or close what is too little for a charge and was not joined by enough others."""
    await bill_collection(tx, card_invoice, settings, now)
    attempt = await open_invoice_charge(tx, card_invoice, now=now, held_until=held_until)
    if await is_due_any_account(tx, card_invoice, now):
        [invoice] = await store.lock_invoices_any_account(tx, [card_invoice.invoice_id])
        note, by = "too little to charge a card", ACTOR.at(now)
        await settle_invoice(tx, invoice, by=by, note=note)
        await book_difference(tx, invoice, DifferenceKind.SMALL_DIFFERENCE, invoice.due_minor, note=note, by=by)
    return attempt


BATCH = 20
CONCURRENCY = 8

_log = structlog.get_logger()


class ChargeInvoices(RowJobWithSettings, frozen=True):
    """A worker job, one per mode. The steps are those of `ChargeCards`.

    A charge is recorded before the gateway is called, and looked up before it is sent again, so a crash after any step
    loses nothing and charges nobody twice.
    """

    gateways: Mapping[str, CardGateway]
    mode: Mode
    schedule: RetrySchedule

    async def run_once(self) -> bool:
        """Process one batch; false if nothing is due."""
        due, unclear = await self.claim()
        attempts = [*unclear, *await self.open(due)]
        await self.settle(await self.call_gateways(attempts))
        return bool(due or unclear)

    async def claim(self) -> tuple[list[invoice_charge_store.CardInvoice], list[ChargeAttempt]]:
        """Invoices to charge, and recorded charges to look up."""
        now = self.clock()
        held_until = now + self.schedule.lease()
        async with self.database.transaction() as tx:
            unclear = await invoice_charge_store.claim_invoice_charges(tx, self.mode, now, held_until, limit=BATCH)
            unclear = await _compare_with_invoices(tx, unclear)
            due = await invoice_charge_store.claim_card_invoices(tx, self.mode, now, held_until, limit=BATCH)
        return due, unclear

    async def open(self, due: Sequence[invoice_charge_store.CardInvoice]) -> list[ChargeAttempt]:
        """Record a charge for each of these invoices."""
        opened: list[ChargeAttempt] = []

        async def open_one(invoice: invoice_charge_store.CardInvoice) -> None:
            now = self.clock()
            attempt = await self.database.commit(
                open_or_close, invoice, self.settings, now=now, held_until=now + self.schedule.lease()
            )
            if attempt is not None:
                opened.append(attempt)

        await run_each(
            due,
            open_one,
            failure_event="invoice_charge_not_opened",
            describe=lambda invoice: {"invoice_id": invoice.invoice_id},
        )
        return opened

    async def call_gateways(self, attempts: Sequence[ChargeAttempt]) -> list[Answer]:
        calls, slots = GatewayCalls(self.gateways, self.clock, self.schedule), asyncio.Semaphore(CONCURRENCY)

        async def call(attempt: ChargeAttempt) -> Answer:
            async with slots:
                return await calls.call(attempt)

        return await asyncio.gather(*(call(attempt) for attempt in attempts))

    async def settle(self, answers: Sequence[Answer]) -> None:
        """Each in a transaction of its own. A charge that fails to settle is due again after its lease."""
        await run_each(
            answers,
            self._settle,
            failure_event="invoice_charge_not_settled",
            describe=lambda answer: {"charge_id": answer[0].request.id},
        )

    async def _settle(self, answer: Answer) -> None:
        attempt, result = answer
        await self.database.commit(settle_invoice_charge, attempt, result, self.clock(), self.schedule)


async def _compare_with_invoices(tx: Connection, attempts: Sequence[ChargeAttempt]) -> list[ChargeAttempt]:
    """Whether their invoices still wait for the payment.

    A charge of another amount than is due is replaced if that is still possible: an order of the invoice was cancelled.
    """
    found = []
    for attempt in attempts:
        scope = Scope(attempt.organisation_id, attempt.request.account_id, attempt.request.mode)
        ids = await list_invoices_of_charge(tx, scope, attempt.request.id)
        invoices = await find_invoices_any_account(tx, ids)
        due_minor = sum(invoice.due_minor for invoice in invoices if invoice.status is InvoiceStatus.OPEN)
        is_other = attempt.confirm_until is not None and due_minor != attempt.request.amount_minor
        is_wanted = any(invoice.status is InvoiceStatus.OPEN for invoice in invoices)
        found.append(replace(attempt, is_wanted=is_wanted, is_replaced=attempt.is_replaced or is_other))
    return found
