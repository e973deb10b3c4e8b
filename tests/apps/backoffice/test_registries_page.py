"""The page Registries: where the tonnes are, accounts, requests in doubt, and lots that differ."""

import httpx
import pytest

from tests.apps.backoffice.supply_shop import actions_of_users, upload, words
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.people import Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode

PAGE = "/operator/test/registries"


@pytest.fixture
async def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    shop = Shop(services, world, clock, Mode.TEST)
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 10)
    return shop


async def buy(shop: Shop, beneficiary: str, tonnes: int) -> None:
    await shop.buy(await shop.account(beneficiary), tonnes * TONNE, "wind")
    await shop.work()


async def check(shop: Shop, times: int = 1) -> None:
    for _ in range(times):
        shop.clock.advance(minutes=6)
        await shop.services.check_registries.run_once()


async def test_every_tonne_is_somewhere(shop: Shop, olga: Person) -> None:
    await buy(shop, "Ada", 1)
    await buy(shop, "Registry Lost", 2)
    early = await olga.get(PAGE)
    assert "7 t free, 2 t asked, 1 t retired" in early.text.replace("\u00a0", " "), "the answer is due"
    shop.clock.advance(minutes=2)
    shown = await olga.get(PAGE)
    assert "Our Registry: 7 t free, 2 t in doubt, 1 t retired" in shown.text.replace("\u00a0", " ")
    assert "1 1 in doubt, oldest 2 min ago" in words(shown)
    page = words(shown)
    assert "sim-key In doubt 2 Registry Lost 2 min ago" in page
    assert "Not compared yet" in page
    await check(shop)
    page = words(await olga.get(PAGE))
    assert (
        "sim-key Agrees with the books 0 s ago 5,990,009 t 5,990,009 t – 1 1 in doubt, oldest 8 min ago Compare now"
        in page
    )
    assert "sim-key" not in words(await olga.get("/operator/live/registries")), "the other mode"


async def test_a_request_is_looked_up_and_an_account_compared_on_request(shop: Shop, olga: Person) -> None:
    await buy(shop, "Registry Answer Lost", 2)
    [request] = await shop.fetch("SELECT id, reference FROM registry_instructions")
    path = f"{PAGE}/requests/{request['id']}"
    page = words(await olga.get(path))
    assert f"{request['reference']} Asked" in page
    assert "Serials test-A-1 101–102 Beneficiary" in page
    assert "Orders that wait for it" in page
    assert (await olga.submit(f"{path}/retry")).headers["location"] == f"{path}?done=registry_retried"
    await shop.work()
    assert "Retired" in words(await olga.get(path))
    assert (await olga.submit(f"{path}/retry")).status_code == 422, "it has its result"
    compared = await olga.submit(f"{PAGE}/accounts/sim-key/check")
    assert compared.headers["location"] == f"{PAGE}?done=registry_checked"
    assert await shop.services.check_registries.run_once()
    assert await actions_of_users(shop) == ["registry_request.retried", "registry_account.check_requested"]
    for address in (f"{path}/retry", f"{PAGE}/accounts/sim-key/check"):
        assert (await olga.submit(address.replace("/test/", "/live/"))).status_code == 404
        assert (await olga.submit(f"{address}".replace("rin_", "rin_x").replace("sim-key", "x"))).status_code == 404


async def test_a_lot_that_differs_is_settled(shop: Shop, olga: Person) -> None:
    await buy(shop, "Registry Drift", 2)
    await check(shop, 2)
    drift_id = await shop.fetchval("SELECT id FROM registry_drifts")
    shown = await olga.get(PAGE)
    assert "Our Registry: 8 t paused, 2 t retired" in shown.text.replace("\u00a0", " ")
    lot_id = await shop.fetchval("SELECT id FROM lots WHERE paused_at IS NOT NULL")
    assert "Paused since" in words(await olga.get(f"/operator/test/supply/lots/{lot_id}"))
    page = words(shown)
    assert "sim-key has 1 unit fewer than the books." in page
    assert "1 t in the books and not at the registry" in page
    assert "Contradicts the books" in page
    settle = f"{PAGE}/differences/{drift_id}/settle"
    refused = await olga.submit(settle, drift=drift_id, resolution="gone", reason="")
    assert refused.status_code == 422
    assert "Choose what became of the difference. Reason Say why, in a sentence." in words(refused)
    settled = await olga.submit(settle, drift=drift_id, resolution="explained", reason="A gift")
    assert settled.headers["location"] == f"{PAGE}?done=registry_settled"
    assert "Differences" not in words(await olga.get(PAGE))
    assert await shop.fetch("SELECT * FROM lots WHERE paused_at IS NOT NULL") == []
    assert await actions_of_users(shop) == ["lot.resumed"]
    assert (await olga.submit(settle, drift=drift_id, resolution="explained", reason="Twice")).status_code == 404


LIVE = "/operator/live/registries"


async def test_a_list_of_an_account_without_an_api_is_compared(
    services: Services, world: World, clock: ManualClock, olga: Person
) -> None:
    live = Shop(services, world, clock, Mode.LIVE)
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    assert "8 t free, 2 t allocated" in (await olga.get(LIVE)).text.replace("\u00a0", " ")
    assert (await olga.submit("/operator/live/retirements/take")).status_code == 200
    assert "8 t free, 2 t asked" in (await olga.get(LIVE)).text.replace("\u00a0", " "), "a person has it in a file"

    async def compare(*serials: str, **fields: str) -> httpx.Response:
        file = ("statement", "active.csv", "\n".join(["Serial Number", *serials]))
        fields = {"registry": "Our Registry", **fields}
        return await upload(olga, LIVE, f"{LIVE}/statements", file, **fields)

    missing = words(await olga.submit(f"{LIVE}/statements"))
    assert "Choose the registry." in missing
    assert "Choose a CSV file." in missing
    assert "is not a block with numbers" in words(await compare("x"))
    assert "This day is in the future" in words(await compare("live-A-1 101–110", day="2040-01-01"))
    agrees = await compare("live-A-1 103–110")
    assert agrees.headers["location"] == f"{LIVE}?done=registry_agrees"
    page = words(await olga.get(LIVE))
    assert "desk-ourregistry Agrees with the books 0 s ago 10 t 8 t – 0 Compare a list" in page
    refused = await compare("live-A-1 106–110")
    assert (refused.status_code, "has other units in the list than in the books" in words(refused)) == (422, True)
    assert await live.fetchval("SELECT count(*) FROM lots WHERE paused_at IS NOT NULL") == 0
    differs = await compare("live-A-1 106–110", pause="1")
    assert differs.headers["location"] == f"{LIVE}?done=registry_differs"
    page = words(await olga.get(LIVE))
    assert "desk-ourregistry has 5 units fewer than the books." in page
    assert "Contradicts the books 0 s ago 10 t 5 t 5 t 0" in page
    assert await live.fetchval("SELECT count(*) FROM lots WHERE paused_at IS NOT NULL") == 1
    assert (await olga.submit(f"{PAGE}/statements")).status_code == 404, "the books of test mode are not compared"
