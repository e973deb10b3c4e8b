"""What an operator, the bank or a worker may do with one invoice of an order that was fulfilled on credit."""

import random
from collections.abc import Awaitable, Callable

from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.test_transfers import DAY, import_file
from tests.stories.test_write_offs import Debts
from tests.support.world import TESTER
from tonne.money.accounting.matching.assign_transfer import assign_transfer, unassign_transfer
from tonne.money.bank.return_transfer import confirm_return, fail_return, return_transfer
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.values.errors import TonneError
from tonne.selling.orders.model import Order

WITH_REST = "SELECT id FROM bank_transfers WHERE state IN ('unmatched', 'overpaid') ORDER BY id"


async def cancel_with_refund(debts: Debts, order: Order) -> None:
    how = Cancellation(reason="Changed their mind", with_refund=True)
    async with debts.database.transaction() as tx:
        await cancel_by_id(tx, order.scope, order.id, how, settings=debts.settings, by=TESTER.at(debts.clock.now))


class OneDebt:
    def __init__(self, debts: Debts, order: Order, rng: random.Random) -> None:
        self.debts, self.order, self.rng = debts, order, rng
        self.lines = 0
        often: list[Callable[[], Awaitable[object]]] = [
            *(self.pay, self.pay, self.write_off, self.write_off, self.reinstate, self.credit, self.unassign),
            *(self.assign, self.give_back, self.send, self.come_back),
        ]
        # These close the invoice.
        rarely: list[Callable[[], Awaitable[object]]] = [debts.work, self.settle, self.cancel]
        self.steps = [*often, *often, *often, *rarely]

    async def step(self) -> str:
        """Returns what was done, or why it was refused."""
        step = self.rng.choice(self.steps)
        try:
            await step()
        except TonneError as error:
            return f"{step.__name__} refused: {error}"
        return step.__name__

    async def pay(self) -> None:
        self.lines += 1
        minor = self.rng.choice((1, 400, 900, 1394, 2000))
        await import_file(self.debts, camt_file([Line(DAY, minor, "TN-LIVE-000001", reference=f"R{self.lines}")]))

    async def write_off(self) -> None:
        await self.debts.write_off(self.order)

    async def reinstate(self) -> None:
        await self.debts.reinstate(self.order)

    async def credit(self) -> None:
        await self.debts.credit(self.order, self.rng.choice((1, 200, 700, (await self._invoice()).due_minor)))

    async def settle(self) -> None:
        await self._run(settle_invoice, await self._invoice())

    async def cancel(self) -> None:
        await cancel_with_refund(self.debts, self.order)

    async def unassign(self) -> None:
        if found := await self._pick("SELECT id FROM transfer_assignments WHERE undoes IS NULL ORDER BY id"):
            await self._run(unassign_transfer, found, note="A mistake")

    async def assign(self) -> None:
        if found := await self._pick(WITH_REST):
            await self._run(assign_transfer, found, [await self._invoice()], None, note="")

    async def give_back(self) -> None:
        if found := await self._pick(WITH_REST):
            await self._run(return_transfer, found, None, reason="Too much", to=None)

    async def send(self) -> None:
        if found := await self._pick("SELECT id FROM transfer_returns WHERE status = 'planned' ORDER BY id"):
            await self._run(confirm_return, found, "Sent", settings=self.debts.settings)

    async def come_back(self) -> None:
        if found := await self._pick("SELECT id FROM transfer_returns WHERE status = 'returned' ORDER BY id"):
            await self._run(fail_return, found, "The account is closed")

    async def _invoice(self) -> Invoice:
        return await self.debts.invoice(self.order)

    async def _pick(self, sql: str) -> str | None:
        rows = await self.debts.fetch(sql)
        return self.rng.choice(rows)["id"] if rows else None

    async def _run(self, use_case: Callable[..., Awaitable[object]], *args: object, **kwargs: object) -> None:
        async with self.debts.database.transaction() as tx:
            await use_case(tx, *args, **kwargs, by=TESTER.at(self.debts.clock.now))
