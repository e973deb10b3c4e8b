"""The page Registries: where the tonnes are, accounts, requests in doubt, and lots that differ."""

import pytest

from tests.apps.backoffice.supply_shop import actions_of_users, words
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
    shop.clock.advance(minutes=2)
    shown = await olga.get(PAGE)
    assert "Our Registry: 7 t free, 2 t in doubt, 1 t retired" in shown.text.replace("\u00a0", " ")
    page = words(shown)
    assert "sim-key In doubt 2 Registry Lost 2 min ago" in page
    assert "Not compared yet" in page
    await check(shop)
    page = words(await olga.get(PAGE))
    assert "sim-key Agrees with the books 0 s ago 5,990,009 t 5,990,009 t 1 Compare now" in page
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
