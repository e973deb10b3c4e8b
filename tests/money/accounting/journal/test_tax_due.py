"""Tax that is due with the payment or with the supply, not with the invoice."""

import csv
import io
from decimal import Decimal

import msgspec
import pytest

from tests.stories.test_write_offs import Debts
from tests.supply.retirements.shop import Shop
from tests.support.clock import ManualClock
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.journal.model import LedgerAccount as To
from tonne.money.accounting.journal.read_journal import month_period, sum_turnover
from tonne.money.accounting.reports.sales_list import TOTAL
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_orders


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    return msgspec.structs.replace(settings, tax_point=request.param, cash_accounting=request.param == "payment")


@pytest.fixture
async def debts(services: Services, clock: ManualClock, world: World) -> Debts:
    debts, ours = Debts(services, clock), world.ours_live.scope.organisation_id
    await debts.renew_rates()
    async with debts.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
        await set_tax_profile(tx, ours, profile, by=TESTER.at(clock()))
    return debts


async def taxes(debts: Debts, month: int) -> tuple[int, int]:
    """What the month added to the tax that is owed, and to the tax that is owed later. The doctor finds nothing."""
    await debts.post_entries()
    await debts.check_invariants()
    start = debts.clock.now.date().replace(month=month, day=1)
    async with debts.database.connection() as connection:
        found = await sum_turnover(connection, month_period(Mode.LIVE, start))
    of = {(each.account, each.tax_code): -each.balance_minor for each in found}
    return of.get((To.TAX, "DE-S-19"), 0), of.get((To.TAX_NOT_DUE, "DE-S-19"), 0)


async def listed(debts: Debts, month: int) -> list[str]:
    """The tax points in the list of sales."""
    period = month_period(Mode.LIVE, debts.clock.now.date().replace(month=month, day=1))
    async with debts.database.snapshot() as tx:
        text = "".join([each async for each in FILES["sales.csv"].write(tx, period)])
    return [row["tax_point"] for row in csv.DictReader(io.StringIO(text)) if row["document"] != TOTAL]


async def credit(debts: Debts, order: Order, minor: int) -> None:
    async with debts.database.transaction() as tx:
        [locked] = (await lock_orders(tx, [order.key])).values()
        by = TESTER.at(debts.clock())
        await credit_order(tx, locked, minor, cause=CreditCause.REFUND, reason="Agreed", by=by)


@pytest.mark.parametrize("settings", ["payment"], indirect=True)
async def test_tax_is_due_with_each_payment(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world)
    assert await taxes(debts, 3) == (0, 265)
    assert await listed(debts, 3) == [""]
    await debts.book("2026-03-02,8.30,EUR,Ada,TN-LIVE-000001")
    await debts.check_invariants()  # while the payment makes the document wait to be booked again
    assert await taxes(debts, 3) == (133, 132), "half of it, and half of the tax"
    debts.clock.turn_to(4, 2, 9)
    await credit(debts, order, 415)
    # 8.30 of 12.45 are paid, and 1.99 of the tax are left.
    assert await taxes(debts, 4) == (0, -66)
    await debts.book("2026-04-03,4.15,EUR,Ada,TN-LIVE-000001")
    assert await taxes(debts, 3) == (133, 132), "March stays as it was"
    assert await taxes(debts, 4) == (66, -132)
    await credit(debts, order, 1245)
    assert await taxes(debts, 4) == (-133, -132), "nothing is left of it"
    # The list of sales of a month knows what was due by its end.
    assert (await listed(debts, 3), await listed(debts, 4)) == (["2026-03-02"], ["2026-04-03"] * 2)


@pytest.mark.parametrize("settings", ["supply"], indirect=True)
async def test_tax_is_due_with_the_supply(debts: Debts, world: World) -> None:
    first = await debts.on_credit(world)
    second = await debts.place_order(world.ours_live.scope)
    await debts.work()
    await credit(debts, first, 415)
    shop = Shop(debts.services, world, debts.clock, Mode.LIVE)
    await shop.work()
    debts.clock.turn_to(4, 2, 9)
    await shop.work()
    await shop.confirm(*await shop.work_list())
    assert await taxes(debts, 3) == (0, 2 * 265 - 66)
    await shop.work()
    await debts.check_invariants()
    assert await debts.status(second) == "complete"
    assert await taxes(debts, 4) == (2 * 265 - 66, -(2 * 265 - 66))
    assert await listed(debts, 3) == ["", "", ""]
