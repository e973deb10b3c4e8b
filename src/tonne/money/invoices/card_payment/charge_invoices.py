"""Charge the stored cards of accounts for consolidated invoices: one charge for all orders of an invoice."""

import asyncio
from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct

from tonne.money.cards import invoice_charge_store
from tonne.money.cards.charge_cards import Answer, GatewayCalls
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.money.invoices.card_payment.pay_by_card import open_invoice_charge
from tonne.money.invoices.card_payment.settle_card_invoice import settle_invoice_charge
from tonne.money.invoices.model import InvoiceStatus
from tonne.money.invoices.store import find_invoices_any_account
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.replace import replace

BATCH = 20
CONCURRENCY = 8

_log = structlog.get_logger()


class ChargeInvoices(Struct, frozen=True):
    """A worker job, one per mode. The steps are those of `ChargeCards`.

    A charge is recorded before the gateway is called, and looked up before it is sent again, so a crash after any step
    loses nothing and charges nobody twice.
    """

    database: Database
    gateways: Mapping[str, CardGateway]
    mode: Mode
    clock: Clock
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
