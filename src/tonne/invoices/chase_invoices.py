"""What becomes of an open invoice as time goes by: it is mailed, reminded of, and cancelled with its order."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, timedelta
from email.message import EmailMessage
from typing import NamedTuple, Protocol

import structlog

from tonne.base.clock import Clock
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.batches import run_each
from tonne.db.pool import Connection, Database
from tonne.gateways.outbox import enqueue
from tonne.invoices import store as invoice_store
from tonne.invoices.cancel_order import cancel_order
from tonne.invoices.errors import InvoiceNotOpen
from tonne.invoices.mail import (
    compose_invoice_mail,
    compose_reminder,
    in_words,
    usable,
)
from tonne.invoices.model import Invoice, InvoiceStatus, Plan, Step
from tonne.invoices.pdf import invoice_pdf
from tonne.invoices.record import InvoiceRecord
from tonne.invoices.settle_invoice import settle_invoice
from tonne.orders.load import load_order
from tonne.orders.model import Order
from tonne.orders.queue import lock_order

BATCH = 10
# Long enough to set and enqueue a batch; a worker that dies leaves its invoices to the next after that.
LEASE = timedelta(minutes=2)
TEST_MODE = "test mode"
UNPAID = "unpaid invoice"

_log = structlog.get_logger()


class _Letter(NamedTuple):
    recipients: list[str]
    message: EmailMessage


class _Compose(Protocol):
    def __call__(
        self, settings: Settings, recipients: list[str], record: InvoiceRecord, *, pdf: bytes, cancel_on: date
    ) -> EmailMessage: ...


class ChaseInvoices:
    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._plan = Plan.from_settings(settings)

    async def run_once(self) -> bool:
        """Take the next step with some due invoices; false when none is due.

        Every step ends in a short transaction with a compare-and-set: a crash before it repeats the step, and of two
        workers with one invoice, one has it done.
        """
        now = self._clock()
        async with self._database.connection() as connection:
            claimed = await invoice_store.claim_due_any_account(connection, now, now + LEASE, BATCH)
        await run_each(
            claimed,
            self._step,
            failure_event="invoice_step_failed",
            describe=lambda invoice: {"reference": invoice.reference},
        )
        return bool(claimed)

    async def _step(self, invoice: Invoice) -> None:
        now = self._clock()
        async with self._database.connection() as connection:
            order = await load_order(connection, invoice.scope, invoice.order_id)
            settles_itself = order is not None and _settles_itself(order)
            step, due_at = self._plan.next_step(invoice, now, settles_itself=settles_itself)
            if due_at > now:
                await invoice_store.postpone(connection, invoice.scope, invoice.order_id, due_at)
                return
        if step is Step.MAIL:
            await self._mail(invoice, settles_itself=settles_itself)
        elif step is Step.REMIND:
            await self._remind(invoice)
        elif step is Step.SETTLE:
            # Unless a test helper, or an operator, has just done so.
            with suppress(InvoiceNotOpen):
                async with self._database.transaction() as tx:
                    await settle_invoice(tx, invoice.scope, invoice.order_id, actor=TEST_MODE, now=now)
        else:
            await self._cancel(invoice)

    async def _mail(self, invoice: Invoice, *, settles_itself: bool) -> None:
        letter = await self._write(invoice, compose_invoice_mail)
        now = self._clock()
        _, due_at = self._plan.next_step(replace(invoice, mailed_at=now), now, settles_itself=settles_itself)
        async with self._database.transaction() as tx:
            if await invoice_store.mark_mailed(tx, invoice.scope, invoice.order_id, now, due_at):
                await _send(tx, invoice, letter)

    async def _remind(self, invoice: Invoice) -> None:
        letter = await self._write(invoice, compose_reminder)
        now = self._clock()
        _, due_at = self._plan.next_step(replace(invoice, reminded_at=now), now, settles_itself=False)
        async with self._database.transaction() as tx:
            if await invoice_store.mark_reminded(tx, invoice.scope, invoice.order_id, now, due_at):
                await _send(tx, invoice, letter)

    async def _write(self, invoice: Invoice, compose: _Compose) -> _Letter | None:
        """The mail with the PDF, or None when the organisation has nobody to read it."""
        async with self._database.connection() as connection:
            customer = await invoice_store.find_customer(connection, invoice.scope.organisation_id)
        recipients = usable(customer.admins)
        if not recipients:
            return None
        record = invoice.read_record()
        pdf = await asyncio.to_thread(invoice_pdf, record)
        cancel_on = self._plan.cancel_on(invoice, self._clock().astimezone(UTC).date())
        return _Letter(recipients, compose(self._settings, recipients, record, pdf=pdf, cancel_on=cancel_on))

    async def _cancel(self, invoice: Invoice) -> None:
        now = self._clock()
        today = in_words(now.astimezone(UTC).date())
        reason = f"Invoice {invoice.reference} was due on {in_words(invoice.due_on)}, and not paid by {today}."
        async with self._database.transaction() as tx:
            order = await lock_order(tx, invoice.scope, invoice.order_id)
            current = None if order is None else await invoice_store.find_invoice(tx, order.scope, order.id)
            if order is not None and current is not None and current.status is InvoiceStatus.OPEN:
                await cancel_order(tx, order, settings=self._settings, actor=UNPAID, reason=reason, now=now)


async def _send(tx: Connection, invoice: Invoice, letter: _Letter | None) -> None:
    if letter is not None:
        await enqueue(tx, invoice.scope.organisation_id, letter.recipients, letter.message)
        return
    # Its deadlines run all the same: who ordered can read it over HTTP. `tonne invoice list` says who lacks an admin.
    organisation_id = invoice.scope.organisation_id
    _log.warning("invoice_without_recipient", reference=invoice.reference, organisation_id=organisation_id)


def _settles_itself(order: Order) -> bool:
    return order.scope.mode is Mode.TEST and order.auto_advance
