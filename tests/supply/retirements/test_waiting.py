"""`tonne doctor` warns of invalid lots that nobody deals with, and of units that are not closed."""

from datetime import timedelta

from tests.supply.retirements.shop import TONNE, Shop
from tests.supply.retirements.test_invalid_lots import resolve
from tonne.supply.retirements.resupply.resupply_orders import Decision
from tonne.supply.retirements.waiting import WAITING

UNDECIDED = "live certificates of invalid lots are decided about"
SHORT = "live orders of invalid lots get other credits within an hour"
UNREPLACED = "live certificates of invalid lots are replaced by the day that the order shows"
UNRETIRED = "live retirements are confirmed within TONNE_RETIREMENT_DAYS"
LATE = "live units are closed at the end of their waiting time"


async def waiting(shop: Shop, name: str) -> list[str]:
    (check,) = (each for each in WAITING if each.name == name)
    rows = await shop.fetch(check.sql, *check.parameters(shop.settings, shop.clock.now))
    return [row["where"] for row in rows]


async def test_certificates_of_invalid_lots(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    lot_id = await live.supply("A", 2020, 3)
    account = await live.account("Ada")
    certified = await live.buy(account, TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    allocated = await live.buy(account, TONNE, "wind")
    await live.work()
    await live.invalidate(lot_id, "Cancelled.")
    await live.work()
    number = (await live.certificate(certified))["number"]
    (place,) = await waiting(live, UNDECIDED)
    assert lot_id in place
    assert certified.id in place
    assert number in place
    assert await waiting(live, SHORT) == []
    live.clock.advance(minutes=61)
    (place,) = await waiting(live, SHORT)
    assert allocated.id in place
    await live.supply("A", 2021, 3)
    await live.work()
    assert await waiting(live, SHORT) == []


async def test_certificates_that_are_not_replaced_in_time(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2020, 3)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    await live.supply("A", 2021, 3)
    await live.invalidate(wrong, "Cancelled.")
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    due = await live.fetchval("SELECT certificate_due_on FROM orders WHERE id = $1", order.id)
    live.clock.now = live.clock.now.replace(day=due.day, month=due.month, hour=23)
    assert await waiting(live, UNREPLACED) == []
    live.clock.advance(hours=1)
    assert await waiting(live, UNREPLACED) == [
        f"order {order.id} of account {order.scope.account_id}, expected on {due}"
    ]
    await live.confirm(*await live.work_list())
    await live.work()
    assert await waiting(live, UNREPLACED) == []


async def test_units_that_are_not_closed(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 3)
    await live.buy(await live.account("Ada"), 400_000, "wind")
    await live.work()
    unit_id = await live.fetchval("SELECT id FROM parcels WHERE status = 'open'")
    live.clock.now += timedelta(days=30, minutes=59)
    assert await waiting(live, LATE) == []
    live.clock.advance(minutes=2)
    (place,) = await waiting(live, LATE)
    assert unit_id in place
    await live.work()
    assert await waiting(live, LATE) == []


async def test_credits_of_a_disputed_order_are_held_and_nobody_has_to_retire_them(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 3)
    await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    live.clock.now += timedelta(days=60)
    assert len(await waiting(live, UNRETIRED)) == len(await live.work_list()) == 1
    await live.execute("UPDATE orders SET has_open_dispute = true")
    assert await live.work_list() == []
    assert await waiting(live, UNRETIRED) == []
    await live.execute("UPDATE orders SET has_open_dispute = false")
    assert len(await waiting(live, UNRETIRED)) == len(await live.work_list()) == 1
