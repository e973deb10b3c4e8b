"""What the credits of an order cost the seller."""

from datetime import timedelta

import pytest

from tests.retirements.shop import TONNE, Shop
from tonne.catalog.import_rows import FileKind
from tonne.orders.model import Order
from tonne.retirements.credit_costs import CreditCost, read_credit_costs, read_replaced_costs_any_account
from tonne.sheets.errors import SheetInvalid


async def supply_at(shop: Shop, cost: str, currency: str, *, vintage: int = 2020, tonnes: int = 5) -> None:
    (head, lot) = shop.lot_file("A", vintage, tonnes)[FileKind.LOTS]
    await shop.import_files({FileKind.LOTS: [f"{head},unit_cost,cost_currency", f"{lot},{cost},{currency}"]})


async def costs(shop: Shop, *orders: Order) -> list[CreditCost]:
    async with shop.database.connection() as connection:
        return await read_credit_costs(connection, [order.key for order in orders])


async def test_costs_per_order_and_currency(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await supply_at(live, "8.40", "EUR", vintage=2019, tonnes=2)
    await supply_at(live, "900", "JPY", vintage=2020, tonnes=2)
    await live.supply("A", 2021, 9)
    account = await live.account("Ada")
    first, second = await live.buy(account, 1_500_000, "wind"), await live.buy(account, 3 * TONNE, "wind")
    await live.work()
    found = await costs(live, first, second)
    by_order = {(cost.order_id, cost.currency): cost.cost_minor for cost in found}
    # A tonne and the half of another at 8.40 EUR; then two at 900 JPY, and one whose cost is not known.
    assert by_order == {(first.id, "EUR"): 1260, (second.id, "JPY"): 1800}


async def test_lost_costs_of_an_invalid_lot(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await supply_at(live, "8.40", "EUR", vintage=2019, tonnes=2)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    lot_id = await live.fetchval("SELECT lot_id FROM parcels")
    await live.invalidate(lot_id, "Cancelled.")
    await supply_at(live, "9.00", "EUR", vintage=2021)
    await live.work()
    assert [cost.cost_minor for cost in await costs(live, order)] == [900]
    async with live.database.connection() as connection:
        now = live.clock.now
        lost = await read_replaced_costs_any_account(connection, now - timedelta(days=1), now + timedelta(days=1))
    assert lost == [CreditCost(order.scope.account_id, order.id, "EUR", 840)]


@pytest.mark.parametrize(
    ("cost", "currency", "message"),
    [
        ("8.40", "", "needs its currency"),
        ("", "EUR", "enter the cost per tonne"),
        ("8.405", "EUR", "too precise"),
        ("1.5", "JPY", "too precise"),
        ("-1", "EUR", "not a cost per tonne"),
        ("8.40", "EURO", "not a currency"),
    ],
)
async def test_invalid_costs_are_refused(live: Shop, cost: str, currency: str, message: str) -> None:
    await live.sell("wind", {"A": 1})
    with pytest.raises(SheetInvalid) as refused:
        await supply_at(live, cost, currency)
    assert message in str(refused.value.errors[0])


async def test_a_cost_can_be_added_until_the_lot_is_used(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    (head, lot) = live.lot_file("A", 2020, 5)[FileKind.LOTS]
    priced = {FileKind.LOTS: [f"{head},unit_cost,cost_currency", f"{lot},8.40,EUR"]}
    await live.import_files({FileKind.LOTS: [head, lot]})
    await live.import_files(priced)
    # A file without the columns keeps the cost.
    await live.import_files({FileKind.LOTS: [head, lot]})
    assert await live.fetchval("SELECT unit_cost_minor FROM lots ORDER BY id DESC LIMIT 1") == 840
    await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.import_files(priced)
    with pytest.raises(SheetInvalid):
        await live.import_files({FileKind.LOTS: [f"{head},unit_cost,cost_currency", f"{lot},8.50,EUR"]})
