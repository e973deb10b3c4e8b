"""Names on certificates: corrected in time, corrected too late, entered by a customer, and never public by accident."""

import httpx
import pytest

from tests.channels.checkout.scene import work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.channels.public_pages.certificates import show_page
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient, codes
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary
from tonne.channels.public_pages.model import PageSection
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.orders.load import load_order


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
async def live(services: Services, world: World, clock: ManualClock) -> Shop:
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 20)
    return shop


@pytest.fixture
def operator(populated_db: Database, settings: Settings) -> Operator:
    return Operator(populated_db._url, secret_key=settings.secret_key)


async def put(api: ApiClient, order_id: str, name: str, reason: str) -> httpx.Response:
    body = {"name": name, "reason": reason}
    return await api.http.put(f"/v1/orders/{order_id}/beneficiary", json=body, headers=api._headers({}))


async def test_a_name_corrected_in_time_and_one_corrected_too_late(
    live: Shop, api: ApiClient, browser: httpx.AsyncClient, operator: Operator
) -> None:
    client, scope = api.as_key(live.world.ours_live.key), live.world.ours_live.scope
    await show_page(live.services, scope, sections=(PageSection.TIMELINE, PageSection.CERTIFICATES))
    # 2 March: two orders for customers of a platform, both misspelt.
    live.clock.turn_to(3, 2)
    selection = [{"bundle_id": live.bundle_id("wind")}]
    placed = [
        await client.order(bundle_selection=selection, beneficiary={"name": name})
        for name in ("Fjord Bakry AS", "Alpine Hotl GmbH")
    ]
    in_time, too_late = placed
    for each in placed:
        async with live.database.connection() as connection:
            order = await load_order(connection, scope, each["id"])
        assert order is not None
        await live.pay(order)
    await live.work()
    # 3 March: the work list is exported. 4 March: the first name is corrected before anything is retired.
    assert {task.named for task in await live.work_list()} == {"Fjord Bakry AS", "Alpine Hotl GmbH"}
    live.clock.turn_to(3, 4)
    corrected = await put(client, in_time["id"], "Fjord Bakery AS", "Misspelt.")
    assert corrected.json()["beneficiary"] == {"name": "Fjord Bakery AS"}
    # 5 March: both are retired, and complete.
    live.clock.turn_to(3, 5)
    tasks = await live.work_list()
    assert {task.named for task in tasks} == {"Fjord Bakery AS", "Alpine Hotl GmbH"}
    await live.confirm(*tasks)
    refused = await put(client, too_late["id"], "Alpine Hotel GmbH", "Misspelt.")
    assert (refused.status_code, codes(refused)) == (409, ["beneficiary_retired"]), "not complete yet"
    await live.work()
    first = (await client.get(f"/v1/orders/{too_late['id']}/certificate.json")).json()
    old_pdf = (await client.get(f"/v1/orders/{too_late['id']}/certificate")).content

    # 9 April: the second customer sees the mistake on the certificate.
    live.clock.turn_to(4, 9)
    late = (await put(client, too_late["id"], "Alpine Hotel GmbH", "The name was misspelt.")).json()
    second = (await client.get(f"/v1/orders/{too_late['id']}/certificate.json")).json()
    assert (second["beneficiary"], second["issued_at"][:10]) == ("Alpine Hotel GmbH", "2026-04-09")
    assert second["replaces"] == {"number": first["number"], "reason": "The name was misspelt."}
    assert [line["registry_name"] for line in second["lines"]] == ["Alpine Hotl GmbH"], "the registry's text stays"
    assert late["public_certificate_url"].endswith(second["number"])
    # Anyone with the old number learns of the new one; the old file stays genuine and retrievable.
    for path in (f"/verify/{first['number']}", f"/certificates/{first['number']}"):
        page = (await browser.get(path)).text
        assert "This certificate was replaced on" in page
        assert second["number"] in page
        assert "The name was misspelt." in page
    again = await client.get(f"/v1/orders/{too_late['id']}/certificate?number={first['number']}")
    assert again.content == old_pdf
    assert "<dt>Replaces</dt>" in (await browser.get(f"/verify/{second['number']}")).text
    # The page lists the valid certificates, and counts two tonnes, in March.
    page = (await browser.get("/sustainability/our-forest")).text
    assert second["number"] in page
    assert first["number"] not in page
    totals = await live.fetch("SELECT month::text, sum(grams)::bigint AS grams FROM retired_totals GROUP BY month")
    assert [tuple(row) for row in totals] == [("2026-03-01", 2 * TONNE)]
    chain = operator.does("order", "certificates", too_late["id"]).splitlines()
    assert [line.split()[:2] for line in chain[1:]] == [[second["number"], "valid"], [first["number"], "replaced"]]
    await live.check_invariants()


async def test_the_name_of_a_customer_is_on_the_certificate_and_nowhere_else(
    services: Services, world: World, browser: httpx.AsyncClient, api: ApiClient
) -> None:
    scope = world.ours_test.scope
    await show_page(services, scope)
    link = await make_link(services, scope, beneficiary=LinkBeneficiary.CUSTOMER)
    shopper = Shopper(browser)
    for name, ticked in (("Maria Keller", ""), ("Jonas Weber", "1")):
        address = await shopper.begin(link, name_on_certificate=name, is_name_public=ticked)
        assert f"in the name of <strong><bdi>{name}</bdi></strong>" in (await shopper.open(address)).text
        await shopper.pay(address)
        await work(services)
    orders = {each["beneficiary"]["name"]: each for each in (await api.get("/v1/orders")).json()["data"]}
    numbers = {
        name: (await api.get(f"/v1/orders/{order['id']}/certificate.json")).json()["number"]
        for name, order in orders.items()
    }
    page = (await browser.get("/sustainability/test/our-forest")).text
    assert ("Maria" in page, "Jonas Weber" in page) == (False, True)
    assert [(await browser.get(f"/certificates/{numbers[name]}")).status_code for name in orders] == [200, 404]
    assert (await browser.get(f"/certificates/{numbers['Maria Keller']}/document")).status_code == 404
    assert "Maria Keller" in (await browser.get(f"/verify/{numbers['Maria Keller']}")).text
    assert orders["Maria Keller"]["public_certificate_url"] is None
    async with services.database.connection() as connection:
        told = await connection.fetch("SELECT beneficiary FROM parcels UNION SELECT beneficiary FROM shares")
        log = await connection.fetchval("SELECT coalesce(string_agg(audit_log::text, ' '), '') FROM audit_log")
    assert not any("Maria" in row["beneficiary"] or "Jonas" in row["beneficiary"] for row in told)
    assert "Maria" not in log
    # She finds a mistake: the new certificate stays private, too.
    body = {"name": "Maria Keller-Weber", "kind": "person"}
    await api.http.put(f"/v1/orders/{orders['Maria Keller']['id']}/beneficiary", json=body, headers=api._headers({}))
    new = (await api.get(f"/v1/orders/{orders['Maria Keller']['id']}/certificate.json")).json()
    assert (await browser.get(f"/certificates/{new['number']}")).status_code == 404
    assert new["lines"][0]["registry_name"].startswith("customers of ")
