"""Fractions that are paid at checkout come from units in the service's name, so that nobody waits for a full unit."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.clock import MARCH
from tonne.money.receipts.expected_completion import Awaited, Expectation, expected_completion
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Order
from tonne.supply.stock.model import Lot, LotStatus, Parcel, ParcelStatus
from tonne.supply.stock.plan_allocation import LineDemand, Recipient, Source, Supply


async def expected(shop: Shop, order: Order) -> Expectation:
    async with shop.database.connection() as connection:
        stored = await load_order(connection, order.scope, order.id)
        assert stored is not None
        return await expected_completion(connection, stored, settings=shop.settings, now=shop.clock.now)


async def test_the_first_gram_puts_a_whole_unit_on_the_work_list(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    shop_a, shop_b = await live.account("Shop A"), await live.account("Shop B")
    # 1 March: a customer of one shop buys 0.4 t. The unit is on the work list the same day.
    first = await live.buy_at_checkout(shop_a, 400_000, "wind")
    await live.work()
    (cut,) = await live.cuts()
    assert (cut.status, cut.shared, cut.beneficiary, cut.allocated_grams) == ("to_retire", True, "Tonne", 400_000)
    # 2 March: a customer of another shop joins it before it is retired.
    live.clock.turn_to(3, 2)
    second = await live.buy_at_checkout(shop_b, 100_000, "wind")
    await live.work()
    assert [cut.allocated_grams for cut in await live.cuts()] == [500_000]
    # 3 March: it is retired, and both are complete.
    live.clock.turn_to(3, 3)
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(first, second) == ["complete", "complete"]
    # 10 March: the rest serves the next customer at once, as credits retired in advance.
    live.clock.turn_to(3, 10)
    third = await live.buy_at_checkout(shop_b, 250_000, "wind")
    await live.work()
    assert await live.statuses(third) == ["complete"]
    (line,) = (await live.certificate(third))["lines"]
    assert line["shared"] == {"unit_quantity": "1", "share": "0.25"}
    assert line["in_advance"] == {"retired_by": "Tonne", "assigned_to": "Shop B", "assigned_on": "2026-03-10"}
    assert [cut.allocated_grams for cut in await live.cuts()] == [750_000]
    await live.check_supply()


async def test_what_the_retired_rest_does_not_cover_opens_the_next_unit(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Shop")
    first = await live.buy_at_checkout(account, 900_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    second = await live.buy_at_checkout(account, 2_300_000, "wind")
    await live.work()
    assert await live.statuses(first, second) == ["complete", "retiring"]
    assert sorted((cut.quantity_grams, cut.allocated_grams, cut.shared) for cut in await live.cuts()) == [
        (TONNE, 200_000, True),
        (TONNE, TONNE, True),
        (2 * TONNE, 2 * TONNE, False),
    ]
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(second) == ["complete"]
    await live.check_supply()


async def test_an_open_unit_of_the_account_is_not_used(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Shop")
    by_api = await live.buy(account, 300_000, "wind")
    paid = await live.buy_at_checkout(account, 300_000, "wind")
    await live.work()
    assert [(cut.status, cut.shared) for cut in await live.cuts()] == [("open", False), ("to_retire", True)]
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(by_api, paid) == ["retiring", "complete"]


async def test_registries_of_kilograms_pool_only_the_grams(live: Shop) -> None:
    await live.sell("coal", {"B": 1}, granularity=KILOGRAM, price="900.00")
    await live.supply("B", 2020, 1)
    account = await live.account("Shop")
    await live.buy_at_checkout(account, 12_345, "coal")
    await live.work()
    assert sorted((cut.quantity_grams, cut.allocated_grams, cut.shared) for cut in await live.cuts()) == [
        (KILOGRAM, 345, True),
        (12 * KILOGRAM, 12 * KILOGRAM, False),
    ]
    await live.check_supply()


async def test_when_the_certificate_is_expected(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Acme Ltd")
    placed = await live.place(account, 1_500_000, "wind")
    assert (await expected(live, placed)).awaited is Awaited.PAYMENT
    # 1 March: paid by API. The half tonne may wait for 30 days, and the retirement takes up to 7 more.
    by_api = await live.pay(placed)
    async with live.database.connection() as connection:
        paid_at = await connection.fetchval("SELECT status_changed_at FROM orders WHERE id = $1", by_api.id)
    latest = await expected(live, by_api)
    assert latest == Expectation(Awaited.POOLED_UNIT, paid_at + timedelta(days=37), paid_at + timedelta(days=30))
    assert latest.sentence.endswith("by 7 April 2026.")
    # Paid at checkout: no waiting for a unit.
    at_checkout = await live.buy_at_checkout(account, 1_500_000, "wind")
    assert (await expected(live, at_checkout)).sentence == "We expect to issue the certificate by 8 March 2026."
    await live.work()
    assert (await expected(live, at_checkout)).by == live.clock.now + timedelta(days=7)
    in_unit = await expected(live, by_api)
    assert in_unit.unit_closes_at == live.clock.now + timedelta(days=30)
    # 20 March: the retirement is overdue. The date is not in the past.
    live.clock.turn_to(3, 20)
    late = await expected(live, at_checkout)
    assert (late.by, late.is_late) == (live.clock.now, True)
    assert late.sentence.startswith("This takes longer than we expected.")
    await live.confirm(*await live.work_list())
    await live.work()
    assert (await expected(live, at_checkout)).awaited is Awaited.NOTHING
    assert (await expected(live, by_api)).awaited is Awaited.POOLED_UNIT
    # 1 April: the unit was closed without being full. It is on the work list, and takes 7 days from now.
    live.clock.turn_to(4, 1)
    await live.work()
    closed = await expected(live, by_api)
    assert (closed.awaited, closed.is_late) == (Awaited.RETIREMENT, False)
    assert closed.sentence == "We expect to issue the certificate by 8 April 2026."


async def test_a_paid_order_that_is_not_allocated_waits_for_supply(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Acme Ltd"), TONNE, "wind")
    assert (await expected(live, order)).awaited is Awaited.RETIREMENT
    # Somebody else has got the credits: a date that moves on every day would not be honest.
    live.clock.turn_to(3, 3)
    assert await expected(live, order) == Expectation(Awaited.SUPPLY)


async def test_an_order_without_supply_has_no_date(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    account = await live.account("Acme Ltd")
    order = await live.buy(account, TONNE, "wind")
    assert await expected(live, order) == Expectation(Awaited.SUPPLY)


@settings(max_examples=200, deadline=None)
@given(
    purchases=st.lists(st.tuples(st.integers(1, 3_000_000), st.booleans(), st.booleans()), min_size=1, max_size=30),
    tonnes=st.integers(1, 30),
)
def test_every_gram_of_a_unit_is_assigned_once(purchases: list[tuple[int, bool, bool]], tonnes: int) -> None:
    """Random purchases at checkout and by API, some units retired in between: the grams of the lot add up."""
    lot = Lot("lot", "A", 2020, LotStatus.HELD, tonnes * TONNE, 0, None, None)
    parcels: dict[str, Parcel] = {}
    assigned = 0
    for grams, at_checkout, retire in purchases:
        units = [parcel for parcel in parcels.values() if parcel.room_grams]
        supply = Supply([lot], units, now=MARCH, wait=timedelta(days=30), service_name="Tonne")
        recipient = Recipient("acc", "Ada", in_service_name=at_checkout)
        shares = supply.allocate(recipient, [LineDemand(1, "wind", grams, [Source("A", 1, TONNE)])])
        parcels |= supply.touched_parcels
        if shares is not None:
            assigned += sum(share.quantity_grams for share in shares)
            if at_checkout:
                assert all(share.parcel.status is not ParcelStatus.OPEN for share in shares)
                assert all(
                    share.parcel.account_id is None
                    for share in shares
                    if share.parcel.quantity_grams > share.quantity_grams
                )
        if retire:
            for parcel in parcels.values():
                if parcel.status is ParcelStatus.TO_RETIRE:
                    parcel.status, parcel.retired_on = ParcelStatus.RETIRED, MARCH.date()
        rooms = sum(parcel.room_grams for parcel in parcels.values())
        assert lot.allocated_grams == assigned + rooms == sum(parcel.quantity_grams for parcel in parcels.values())


async def test_a_registry_with_an_api_is_expected_to_retire_within_a_day(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    order = await trial.buy(await trial.account("Ada"), 2 * TONNE, "wind")
    await trial.run_jobs(trial.services.allocate_orders)
    by = (await expected(trial, order)).by
    assert by is not None
    assert by.date() == (MARCH + timedelta(days=1)).date()
    # It refuses, and a person has to do it.
    async with trial.database.transaction() as tx:
        await tx.execute("UPDATE parcels SET desk_note = 'refused' WHERE mode = 'test' AND status = 'to_retire'")
    at_desk = timedelta(days=trial.settings.retirement_days - 1)
    assert (await expected(trial, order)).by == by + at_desk
