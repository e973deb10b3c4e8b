"""The retirement desk: the work list, confirmations by form and by file, pooled units."""

import pytest

from tests.apps.backoffice.supply_shop import actions_of_users, hidden, upload, words
from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.people import Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

DESK = "/operator/live/retirements"
PAGE = "https://registry.verra.org/retirements/77"
LONG = "Gesellschaft für nachhaltige Mobilität und Logistik mbH & Co"


@pytest.fixture
def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


async def project_page(shop: Shop, project: str = "VCS1") -> str:
    sql = "SELECT id FROM projects WHERE mode = 'live' AND registry_project_id = $1"
    return f"{DESK}/projects/{await shop.fetchval(sql, project)}"


async def two_orders(shop: Shop) -> tuple[Order, Order]:
    """Orders of two beneficiaries, each with 2 t to be retired."""
    await shop.sell("wind", {"VCS1": 1})
    await shop.supply("VCS1", 2021, 50)
    ada, berta = await shop.account("Ada"), await shop.account(LONG)
    orders = await shop.buy(ada, 2 * TONNE, "wind"), await shop.buy(berta, 2 * TONNE, "wind")
    await shop.work()
    return orders


async def test_an_empty_desk_says_what_comes(olga: Person) -> None:
    page = words(await olga.get(DESK))
    assert "Nothing to retire" in page
    assert "No unit is open" in page
    assert (await olga.get(f"{DESK}/projects/prj_1")).headers["location"] == DESK
    assert (await olga.get(f"{DESK}/units/prc_1/close")).status_code == 404
    assert (await olga.get("/operator/live/imports/imp_1")).status_code == 404


async def test_who_has_a_line_in_a_file_is_named(olga: Person, shop: Shop) -> None:
    await two_orders(shop)
    assert (await olga.submit(f"{DESK}/take")).status_code == 200
    page = words(await olga.get(await project_page(shop)))
    assert page.count("In a file Taken by Olga") == 2


async def test_lines_are_confirmed_in_a_form(olga: Person, shop: Shop) -> None:
    ada, berta = await two_orders(shop)
    desk = await olga.get(DESK)
    assert "2 retirements of 4 t to be made" in words(desk)
    address = await project_page(shop)
    page = await olga.get(address)
    assert "live-VCS1-1 101–102" in page.text
    assert "live-VCS1-1 103–104" in page.text
    assert LONG.replace("&", "&amp;") in page.text
    assert ada.id in page.text
    seen = hidden(page, "seen_")
    first, second = (name.removeprefix("seen_") for name in seen)
    # All faults at once, beside the fields.
    refused = await olga.submit(address, **seen, retired_on="soon", reference="x" * 201)
    assert refused.status_code == 422
    for fault in ("Choose at least one line", "Enter the day", "Use at most 200"):
        assert fault in words(refused)
    # One page is one retirement: of one beneficiary.
    shared = {**seen, "all": "1", "retired_on": "2026-11-01", "retirement_url": PAGE}
    assert "has this address for another beneficiary" in words(await olga.submit(address, **shared))
    elsewhere = await olga.submit(address, **{**shared, "retirement_url": "https://registry.goldstandard.org/1"})
    assert "not of Our Registry" in words(elsewhere)
    assert await shop.statuses(ada, berta) == ["retiring", "retiring"]
    # An order that joins the line later is not confirmed with it.
    later = await shop.buy(ada.scope, TONNE, "wind")
    await shop.work()
    staged = await olga.submit(address, **shared, **{f"url_{second}": f"{PAGE}8"}, reference="RET-2026-77")
    preview = staged.headers["location"]
    asked = words(await olga.get(preview))
    assert "2 parcels of 4 t are recorded as retired" in asked
    assert "RET-2026-77" in asked
    assert f"live-VCS1-1 101–102 Ada 2026-11-01 {PAGE}" in asked
    assert "2 orders have a share of these credits" in asked
    done = await olga.submit(f"{preview}/apply")
    assert done.headers["location"] == preview
    assert "0 of 2 orders are complete" in words(await olga.get(preview))
    await shop.work()
    assert await shop.statuses(ada, berta, later) == ["complete", "complete", "retiring"]
    assert "All 2 orders are complete, with a certificate" in words(await olga.get(preview))
    assert "1 retirement of 1 t to be made" in words(await olga.get(DESK))
    # Twice is once.
    assert (await olga.submit(f"{preview}/apply")).headers["location"] == preview
    made = await actions_of_users(shop)
    assert sorted(made) == ["confirmations.imported", "retirement.confirmed", "retirement.confirmed"]
    details = await shop.fetchval(
        "SELECT details ->> 'reference' FROM audit_log WHERE action = 'confirmations.imported'"
    )
    assert details == "RET-2026-77"
    assert first != second
    await shop.check_supply()


async def test_a_file_is_previewed_and_then_imported(olga: Person, shop: Shop) -> None:
    ada, berta = await two_orders(shop)
    exported = (await olga.get(f"{DESK}/export")).content.decode("utf-8-sig").splitlines()
    assert len(exported) == 3
    # The last three columns are the date, the address and other serials.
    filled = [
        ",".join([*line.split(",")[:-3], "2026-11-01", f"{PAGE}{i}", ""]) if i else line
        for i, line in enumerate(exported)
    ]
    path = f"{DESK}/import"
    missing = await upload(olga, DESK, path)
    assert (missing.status_code, "Choose a CSV file" in missing.text) == (422, True)
    bad = [*filled[:2], filled[2].replace("registry.verra.org", "registry.example").replace("2026-11-01", "2027-01-01")]
    wrong = (await upload(olga, DESK, path, ("confirmations", "done.csv", "\n".join(bad)))).headers["location"]
    problems = words(await olga.get(wrong))
    assert "1 problem" in problems
    assert "done.csv 3 retired_on" in problems
    assert (await olga.submit(f"{wrong}/apply")).status_code == 200
    assert await shop.statuses(ada, berta) == ["retiring", "retiring"]
    assert (await olga.submit(f"{wrong}/discard")).headers["location"] == f"{DESK}?done=import_discarded"
    assert (await olga.get(wrong)).status_code == 404
    good = (await upload(olga, DESK, path, ("confirmations", "done.csv", "\n".join(filled)))).headers["location"]
    assert "2 parcels of 4 t" in words(await olga.get(good))
    # Another mode does not have it.
    assert (await olga.get(good.replace("/live/", "/test/"))).status_code == 404
    await olga.submit(f"{good}/apply")
    await shop.work()
    assert await shop.statuses(ada, berta) == ["complete", "complete"]
    again = (await upload(olga, DESK, path, ("confirmations", "done.csv", "\n".join(filled)))).headers["location"]
    assert "Nothing would change" in words(await olga.get(again))
    assert await shop.fetchval("SELECT count(*) FROM staged_files WHERE import_id = $1", good.rpartition("/")[2]) == 0


async def test_a_pooled_unit_is_closed(olga: Person, shop: Shop, clock: ManualClock) -> None:
    await shop.sell("wind", {"VCS1": 1})
    await shop.supply("VCS1", 2021, 50)
    order = await shop.buy(await shop.account("Ada"), 250 * KILOGRAM, "wind")
    await shop.work()
    clock.advance(hours=1)
    desk = await olga.get(DESK)
    assert "in 29 days" in words(desk)
    unit_id = desk.text.partition("/units/")[2].partition("/")[0]
    address = f"{DESK}/units/{unit_id}/close"
    asked = words(await olga.get(address))
    assert "750 kg that nobody has bought" in asked or "0.75 t that nobody has bought" in asked
    assert order.id in asked
    assert (await olga.submit(address.replace("/live/", "/test/"))).status_code == 409
    assert (await olga.submit(address)).headers["location"] == f"{DESK}?done=unit_closed"
    assert "1 retirement of 1 t" in words(await olga.get(DESK))
    assert (await olga.submit(address)).status_code == 409
    assert await actions_of_users(shop) == ["unit.closed"]
