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
    schedule_invoice_any_account,
)
from tonne.money.cards.model import ChargeAttempt, ChargeStatus, ChargeUpdate, RetrySchedule, decide_charge
from tonne.money.cards.stored_cards.card_link_store import note_problems
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.pay_by_card import ACTOR, open_invoice_charge
from tonne.money.invoices.credit_notes.cancel_invoice import cancel_invoice
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_orders
from tonne.money.invoices.errors import InvoiceNotOpen, OrderPaidByCard
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account
from tonne.money.invoices.issuing.collect_orders import is_billed_together
from tonne.money.invoices.issuing.issue_invoices import bill_alone, issue_invoices
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import CHUNK, mark_invoice_paid, pay_orders_any_account
from tonne.money.invoices.store import find_invoices_any_account
from tonne.platform.db.batches import RowJob, run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, Scope, replace
from tonne.selling.orders.load import load_order, load_orders
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import CancellationReason, FailureReason, Order, OrderStatus
from tonne.selling.orders.move_order import Transitions, move_orders
from tonne.selling.orders.queue import lock_keys, lock_order


async def settle_invoice_charge(
    tx: Connection,
    attempt: ChargeAttempt,
    result: ChargeResult,
    now: datetime,
    schedule: RetrySchedule,
) -> None:
    """Call it last in the transaction. A charge that another worker has settled is left unchanged.

    A captured charge settles the invoice and pays all its orders. If the invoice was closed meanwhile, the charge is
    refunded. After a decline the card is charged again according to the schedule, or all orders fail. A charge that
    the payer has to confirm stays pending.
    """
    invoice_id = attempt.request.invoice_id or ""
    await lock_keys(tx, [each.key for each in await find_order_keys_any_account(tx, [invoice_id])])
    [found] = await store.find_invoices_any_account(tx, [invoice_id])
    is_wanted = found.status is InvoiceStatus.OPEN
    update = decide_charge(attempt, result, is_wanted=is_wanted, can_confirm=True, now=now, schedule=schedule)
    settled = await charge_store.settle_charges(tx, [update])
    if update.id not in settled:
        return
    update = replace(update, status=settled[update.id])
    [invoice] = await store.lock_invoices_any_account(tx, [invoice_id])
    scope = Scope(attempt.organisation_id, attempt.request.account_id, attempt.request.mode)
    log_failure(update, invoice=invoice.reference)
    if not is_wanted or update.status is ChargeStatus.MISMATCHED:
        return
    if update.status is ChargeStatus.CAPTURED:
        await _settle(tx, invoice, scope, update, attempt=attempt, now=now)
    elif update.is_surplus:
        reason = "The payment was refunded at the card gateway."
        code = CancellationReason.REFUNDED_AT_GATEWAY
        await cancel_invoice(tx, invoice, by=ACTOR.at(now), reason=reason, code=code)
    elif update.status is ChargeStatus.PENDING:
        if update.needs_confirmation and attempt.confirm_until is None:
            await note_problems(tx, [scope], now)
    else:
        await _plan_retry(tx, invoice, scope, update, now=now, schedule=schedule)


async def _settle(
    tx: Connection, invoice: Invoice, scope: Scope, update: ChargeUpdate, *, attempt: ChargeAttempt, now: datetime
) -> None:
    note = f"charge {update.id}"
    entry = await mark_invoice_paid(tx, invoice, by_hand=False, by=ACTOR.at(now), note=note)
    await audit.record_all(tx, [entry], by=ACTOR.at(now))
    if update.captured_minor != invoice.due_minor and update.reference is not None:
        # An order was cancelled while the card was charged: a worker refunds what it costs.
        await request_checks_any_account(tx, attempt.gateway, [update.reference], now)
    kind, amount_minor = OrderMailKind.INVOICE_RECEIPT, attempt.request.amount_minor
    await add_mails(tx, [OrderMailRow(scope, invoice.first_order_id, kind, update.id, amount_minor)], now)
    await pay_orders_any_account(tx, [invoice.id], now)


async def _plan_retry(
    tx: Connection, invoice: Invoice, scope: Scope, update: ChargeUpdate, *, now: datetime, schedule: RetrySchedule
) -> None:
    counts = await count_invoice_tries_any_account(tx, invoice.id)
    delay = schedule.retry_delay(update.outcome, counts)
    is_first_decline = update.outcome is ChargeOutcome.DECLINED and counts.tries == 1
    if delay is None or is_first_decline:
        await note_problems(tx, [scope], now)
    if delay is not None:
        due_at = now + delay if await store.advances_by_itself(tx, scope) else None
        await schedule_invoice_any_account(tx, invoice.id, due_at)
        return
    reason = f"Invoice {invoice.reference} could not be charged. {explain_decline(update.code)}"
    await _fail(tx, invoice, failure_reason_of(update.code), reason, now)


async def _fail(tx: Connection, invoice: Invoice, failure_reason: FailureReason, reason: str, now: datetime) -> None:
    """Fail all orders of a locked invoice, and cancel it with a credit note."""
    keys = [each.key for each in await find_order_keys_any_account(tx, [invoice.id])]
    await schedule_invoice_any_account(tx, invoice.id, None)
    cause = CreditCause.CANCELLATION
    await credit_orders(tx, invoice, set(keys), cause=cause, reason=reason, by=ACTOR.at(now))
    for start in range(0, len(keys), CHUNK):
        orders = await load_orders(tx, keys[start : start + CHUNK])
        failed = [structs.replace(order, status=OrderStatus.FAILED, failure_reason=failure_reason) for order in orders]
        await move_orders(tx, [Transitions(order, [to]) for order, to in zip(orders, failed, strict=True)], now)


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
    if order is None or order.status is not OrderStatus.PLACED:
        raise InvoiceNotOpen("Only a placed order has an open invoice.")
    invoice = await store.find_invoice(tx, scope, order_id)
    if invoice is None:
        if not is_billed_together(order):
            raise OrderPaidByCard
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


BATCH = 20
CONCURRENCY = 8

_log = structlog.get_logger()


class ChargeInvoices(RowJob, frozen=True):
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
                open_invoice_charge, invoice, now=now, held_until=now + self.schedule.lease()
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
    ids = [attempt.request.invoice_id or "" for attempt in attempts]
    invoices = {invoice.id: invoice for invoice in await find_invoices_any_account(tx, ids)} if ids else {}
    found = []
    for attempt, id_ in zip(attempts, ids, strict=True):
        is_other = attempt.confirm_until is not None and invoices[id_].due_minor != attempt.request.amount_minor
        is_wanted = invoices[id_].status is InvoiceStatus.OPEN
        found.append(replace(attempt, is_wanted=is_wanted, is_replaced=attempt.is_replaced or is_other))
    return found
