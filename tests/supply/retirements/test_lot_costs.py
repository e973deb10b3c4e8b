"""The cost of a lot in lots.csv."""

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.selling.catalogue.imports.plan import FileKind


async def supply_at(shop: Shop, cost: str, currency: str, *, vintage: int = 2020, tonnes: int = 5) -> None:
    (head, lot) = shop.lot_file("A", vintage, tonnes)[FileKind.LOTS]
    await shop.import_files({FileKind.LOTS: [f"{head},unit_cost,cost_currency", f"{lot},{cost},{currency}"]})


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
