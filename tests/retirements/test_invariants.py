"""Each invariant of supply and retirement, broken on purpose: the doctor must see it and name the place."""

import pytest

from tests.retirements.shop import Shop
from tonne.cli.doctor import examine
from tonne.retirements.invariants import INVARIANTS

TAKEN = "a lot's parcels add up to its allocated grams"
GRAMS = "every gram of a parcel belongs to one order line"
UNITS = "parcels consist of whole units"
BOUGHT = "an order's projects and shares add up to its lines"
COMPLETE = "every complete order is fully retired and has a certificate"
CERTIFIED = "a certificate's lines match its order's retirements"
TOTALS = "retired totals match the complete orders"


def _certified(old: str, new: str) -> str:
    replaced = f"replace(convert_from(record, 'UTF8'), '{old}', '{new}')"
    return f"UPDATE certificates SET record = convert_to({replaced}, 'UTF8')"  # noqa: S608 - constants of this file


# What breaks each of them, and what else is then not true any more.
BREACHES: list[tuple[str, str, set[str]]] = [
    (TAKEN, "UPDATE lots SET allocated_grams = allocated_grams - 1000000 WHERE allocated_grams > 0", set()),
    (TAKEN, "UPDATE lots SET allocated_grams = 1000000 WHERE allocated_grams = 0", set()),
    # Two parcels that overlap, with a gap before them: their sum and their end are what they were.
    (TAKEN, "UPDATE parcels SET start_grams = 1000000 WHERE start_grams = 0 AND quantity_grams = 2000000", {CERTIFIED}),
    (TAKEN, "UPDATE parcels SET start_grams = start_grams + 5000000 WHERE start_grams > 0", {CERTIFIED}),
    (GRAMS, "UPDATE parcels SET allocated_grams = allocated_grams - 1 WHERE allocated_grams > 1", set()),
    (GRAMS, "UPDATE shares SET quantity_grams = quantity_grams + 1", {BOUGHT, CERTIFIED}),
    (GRAMS, "DELETE FROM shares", {BOUGHT, CERTIFIED}),
    (UNITS, "UPDATE projects SET granularity_grams = 3000000 WHERE registry_project_id = 'B'", set()),
    (BOUGHT, "UPDATE order_projects SET quantity_grams = quantity_grams + 1", {TOTALS}),
    (BOUGHT, "UPDATE order_projects SET offset_cost_minor = offset_cost_minor + 1", set()),
    (BOUGHT, "DELETE FROM order_projects", {TOTALS}),
    (COMPLETE, "DELETE FROM certificates", {TOTALS}),
    (
        COMPLETE,
        "UPDATE parcels SET status = 'to_retire', retired_on = NULL WHERE status = 'retired'",
        {CERTIFIED},
    ),
    (CERTIFIED, _certified('"quantity":"0.3"', '"quantity":"0.4"'), set()),
    (CERTIFIED, _certified("live-A-1 101–102", "live-A-1 101–103"), set()),
    (CERTIFIED, _certified("live-A-1 103", "live-A-9 103"), set()),
    (CERTIFIED, _certified("2025-05-06", "2025-05-07"), set()),
    (CERTIFIED, _certified("registry.example/r", "registry.example/s"), set()),
    (CERTIFIED, _certified('"vintage":"2020"', '"vintage":"2021"'), set()),
    (CERTIFIED, _certified('"lines":[', '"lines":[],"old":['), set()),
    (TOTALS, "UPDATE retired_totals SET grams = 2 * grams", set()),
    (TOTALS, "DELETE FROM retired_totals", set()),
    (TOTALS, "UPDATE retired_totals SET month = month + interval '1 month'", set()),
    (TOTALS, "UPDATE retired_totals SET bundle_id = 'bun_other'", set()),
]


def test_every_invariant_is_broken_here_at_least_once() -> None:
    assert {name for name, _, _ in BREACHES} == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize(("name", "statement", "also"), BREACHES, ids=[statement for _, statement, _ in BREACHES])
async def test_a_breach_is_seen_and_its_place_named(live: Shop, name: str, statement: str, also: set[str]) -> None:
    await live.sell("ready", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    await live.sell("later", {"B": 1})
    await live.supply("B", 2020, 10)
    ada = await live.account("Ada")
    orders = [await live.buy(ada, 2_300_000, "ready"), await live.buy(ada, 1_400_000, "later")]
    await live.work()
    assert await live.statuses(*orders) == ["complete", "retiring"]
    await live.check_all_is_well()
    async with live.services.database.transaction() as tx:
        await tx.execute(statement)
    async with live.services.database.transaction() as tx:
        breaches = await examine(tx)
    assert set(breaches) == {name} | also
    named = "".join(place for places in breaches.values() for place in places)
    assert named
    assert "None" not in named
