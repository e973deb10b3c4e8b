"""Supply: projects and lots as bars, backorders, imports with a preview, withdrawing and invalidating lots."""

import re

import pytest

from tests.apps.backoffice.supply_shop import actions_of_users, upload, words
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.people import Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode

SUPPLY = "/operator/live/supply"
HEADS = "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on"


@pytest.fixture
def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


async def project_path(shop: Shop) -> str:
    sql = "SELECT id FROM projects WHERE mode = 'live' AND registry_project_id = 'VCS1'"
    return f"{SUPPLY}/projects/{await shop.fetchval(sql)}"


async def test_lots_are_shown_as_bars_with_their_orders(olga: Person, shop: Shop, clock: ManualClock) -> None:
    await shop.sell("wind", {"VCS1": 1})
    lot_id = await shop.supply("VCS1", 2021, 10)
    ada = await shop.account("Ada")
    retired, held = await shop.buy(ada, 3 * TONNE, "wind"), await shop.buy(ada, 2 * TONNE, "wind")
    await shop.work()
    first = next(task for task in await shop.work_list() if task.lot_id == lot_id)
    assert first.quantity_grams == 5 * TONNE
    backorder = await shop.buy(ada, 50 * TONNE, "wind")
    await shop.work()
    clock.advance(minutes=5)
    page = await olga.get(SUPPLY)
    assert backorder.id in page.text
    assert "They are paid, and served within seconds" in words(page)
    assert "Project VCS1" in page.text
    lots = await olga.get(await project_path(shop))
    assert "5 t free, 5 t allocated" in lots.text.replace("\u00a0", " ")
    # The bars of a table have one scale: that of the longest.
    await shop.supply("VCS1", 2022, 40)
    both = await olga.get(await project_path(shop))
    bars = re.findall(r'supply-bar".*?</svg>', both.text, re.DOTALL)
    lengths = sorted(sum(map(float, re.findall(r' width="([\d.]+)%"', bar))) for bar in bars)
    assert lengths == pytest.approx([25, 100], abs=1)
    lot = await olga.get(f"{SUPPLY}/lots/{lot_id}")
    assert "live-VCS1-1 101–110" in lot.text
    assert "live-VCS1-1 101–103" in lot.text
    assert retired.id in lot.text
    assert held.id in lot.text
    assert "Invalidate the lot" in words(lot)
    exported = (await olga.get(f"{SUPPLY}/export")).content.decode("utf-8-sig").splitlines()
    assert exported[0].startswith("lot_id,registry,")
    assert lot_id not in "".join(exported), "it is in use, so it cannot be corrected"
    # Nothing of one mode shows in the other.
    assert (await olga.get(f"{SUPPLY}/lots/{lot_id}".replace("/live/", "/test/"))).status_code == 404
    assert (await olga.get((await project_path(shop)).replace("/live/", "/test/"))).status_code == 404
    assert (await olga.submit(f"{SUPPLY}/lots/{lot_id}/withdraw".replace("/live/", "/test/"))).status_code == 404
    assert (await olga.get(f"{SUPPLY}/lots/lot_1")).status_code == 404
    assert "does not end" in words(await olga.get("/operator/test/supply"))


async def test_lots_are_imported_after_a_preview(olga: Person, shop: Shop, clock: ManualClock) -> None:
    await shop.sell("wind", {"VCS1": 1})
    order = await shop.buy(await shop.account("Ada"), 2 * TONNE, "wind")
    await shop.work()
    path = f"{SUPPLY}/import"
    assert "Choose a CSV file" in words(await upload(olga, SUPPLY, path))
    bad = f"{HEADS}\nOur Registry,VCS1,20x1,BLOCK-9,1,10,held,,\nOur Registry,NOPE,2021,BLOCK-9,11,20,held,,"
    wrong = (await upload(olga, SUPPLY, path, ("lots", "may.csv", bad))).headers["location"]
    problems = words(await olga.get(wrong))
    assert "2 problems" in problems
    assert "may.csv 2 vintage" in problems
    assert "may.csv 3 registry_project_id" in problems
    good = f"{HEADS}\nOur Registry,VCS1,2021,BLOCK-9,1,10,held,,"
    preview = (await upload(olga, SUPPLY, path, ("lots", "may.csv", good))).headers["location"]
    shown = words(await olga.get(preview))
    assert "may.csv: 1 new, 0 changed" in shown
    assert "Our Registry BLOCK-9 1–10" in shown
    assert await actions_of_users(shop) == []
    done = await olga.submit(f"{preview}/apply")
    assert "Orders that wait for supply are served" in words(await olga.get(done.headers["location"]))
    clock.advance(minutes=11)
    await shop.work()
    assert await shop.statuses(order) == ["retiring"]
    assert sorted(await actions_of_users(shop)) == ["catalogue.imported", "lot.created"]


async def test_a_lot_is_withdrawn_or_invalidated_and_decided_about(olga: Person, shop: Shop) -> None:
    await shop.sell("wind", {"VCS1": 1})
    free = await shop.supply("VCS1", 2022, 5)
    path = f"{SUPPLY}/lots/{free}/withdraw"
    assert "Say why, in a sentence." in words(await olga.submit(path))
    asked = words(await olga.submit(path, reason="Sold to another broker"))
    assert "5 t of the lot leave supply at once" in asked
    assert await actions_of_users(shop) == []
    done = await olga.submit(path, reason="Sold to another broker", confirmed="1")
    assert done.headers["location"] == f"{SUPPLY}/lots/{free}?done=lot_withdrawn"
    assert "Sold to another broker" in words(await olga.get(done.headers["location"]))
    used = await shop.supply("VCS1", 2021, 5)
    orders = [await shop.buy(await shop.account("Ada"), TONNE, "wind") for _ in range(2)]
    await shop.work()
    await shop.confirm(*await shop.work_list())
    await shop.work()
    assert await shop.statuses(*orders) == ["complete", "complete"]
    assert "are allocated to" in words(await olga.submit(f"{SUPPLY}/lots/{used}/withdraw", reason="x"))
    path = f"{SUPPLY}/lots/{used}/invalidate"
    asked = words(await olga.submit(path, reason="The registry cancelled them."))
    assert "3 t that are free leave supply" in asked
    assert "2 orders with a certificate: you decide" in asked
    await olga.submit(path, reason="The registry cancelled them.", confirmed="1")
    page = words(await olga.get(f"{SUPPLY}/lots/{used}"))
    assert "2 to decide" in page
    resolve = f"{SUPPLY}/lots/{used}/resolve"
    assert "Choose other credits" in words(await olga.submit(resolve, decision="x"))
    one = {"order": orders[0].id, "decision": "withdraw"}
    assert "Withdraw 1 certificate" in words(await olga.submit(resolve, **one))
    await olga.submit(resolve, **one, confirmed="1")
    asked = words(await olga.submit(resolve, decision="resupply"))
    assert "1 order gets credits of other lots" in asked
    await olga.submit(resolve, decision="resupply", confirmed="1")
    assert await shop.case_states(used) == {orders[0].id: "withdrawn", orders[1].id: "resupply"}
    made = await actions_of_users(shop)
    assert {"lot.withdrawn", "lot.invalidated", "order.invalid_credits_decided", "certificate.withdrawn"} <= set(made)
