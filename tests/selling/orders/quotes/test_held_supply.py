"""Quotes hold supply within the quota of their account, and let go of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient, codes
from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Clock, Mode, utc_now
from tonne.selling.orders.load import load_order
from tonne.selling.orders.quotes.lock_quotes import HOLD_GRACE, QUOTE_LIFE

QUOTES, BY_MASS = "/v1/quotes", "/v1/orders/by-mass"
HELD = "SELECT coalesce(sum(reserved_grams), 0) FROM supply_holds"


@pytest.fixture
def clock() -> Clock:
    """Invariants compare with the time of the database."""
    return ManualClock(utc_now())


@pytest.fixture
async def shop(services: Services, world: World, clock: ManualClock) -> AsyncIterator[Shop]:
    """10 t of one project in live mode; the account may hold 6 t."""
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("wind", {"W1": 1})
    await shop.supply("W1", 2024, 10)
    yield shop
    await shop.check_invariants()


@pytest.fixture
def live(api: ApiClient, world: World) -> ApiClient:
    return api.as_key(world.ours_live.key)


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, secret_key=services.settings.secret_key)


def tonnes(shop: Shop, amount: str, **more: Any) -> dict[str, Any]:
    selection = [{"bundle_id": shop.bundle_id("wind")}]
    return {"mass": {"amount": amount, "unit": "t"}, "bundle_selection": selection, **more}


async def is_held(live: ApiClient, quote_id: str) -> bool:
    return bool((await live.get(f"{QUOTES}/{quote_id}")).json()["supply_held"])


async def available(live: ApiClient, shop: Shop) -> str:
    answer = await live.get(f"/v1/bundles/{shop.bundle_id('wind')}")
    return str(answer.json()["available_quantity"])


async def test_what_a_quote_holds_is_for_its_order_only(
    live: ApiClient, shop: Shop, world: World, operator: Operator, clock: ManualClock
) -> None:
    refused = await live.post(QUOTES, tonnes(shop, "1", hold_supply=True))
    assert (refused.status_code, codes(refused)) == (409, ["hold_quota_exceeded"]), "without a quota nothing is held"
    assert (await live.post(QUOTES, tonnes(shop, "1"))).json()["supply_held"] is False

    account_id = world.ours_live.scope.account_id
    assert "up to 6 t" in operator.does("hold-quota", "set", account_id, "6")
    quote = (await live.post(QUOTES, tonnes(shop, "4.5", hold_supply=True))).json()
    assert quote["supply_held"] is True
    # Whole units of the registry are held.
    assert await available(live, shop) == "5"
    beyond = await live.post(QUOTES, tonnes(shop, "1.5", hold_supply=True))
    assert (beyond.status_code, codes(beyond)) == (409, ["hold_quota_exceeded"])
    assert (await live.post(QUOTES, tonnes(shop, "1.5"))).json()["supply_held"] is False, "held only if possible"
    assert (await live.post(QUOTES, tonnes(shop, "1", hold_supply=False))).json()["supply_held"] is False
    await shop.check_invariants()

    # Others cannot get what is held, not even if they have paid.
    rival = await shop.account("Rival")
    large, small = await shop.buy(rival, 6 * TONNE, "wind"), await shop.buy(rival, 5 * TONNE, "wind")
    await shop.services.allocate_orders.run_once()
    assert (await shop.status(large), await shop.status(small)) == ("paid", "retiring")

    body = tonnes(shop, "4.5", quote_id=quote["id"], reject_if_short=True)
    order = (await live.post(BY_MASS, body)).json()
    assert order["status"] == "placed"
    # The order may be paid later: it keeps its supply, and the quota counts it.
    clock.advance(days=3)
    await shop.run_jobs(shop.services.release_holds)
    assert await shop.fetchval(HELD) == 5 * TONNE
    again = await live.post(QUOTES, tonnes(shop, "1", hold_supply=True))
    assert (again.status_code, codes(again)) == (409, ["insufficient_available_quantity"])
    async with shop.database.connection() as connection:
        stored = await load_order(connection, world.ours_live.scope, order["id"])
    assert stored is not None
    await shop.pay(stored)
    await shop.services.allocate_orders.run_once()
    assert (await shop.status(stored), await shop.fetchval(HELD)) == ("retiring", 0)
    await shop.run_jobs(shop.services.release_holds)
    assert await shop.fetchval("SELECT count(*) FROM quotes WHERE is_holding") == 0


async def test_holds_end_with_their_quote_or_order(
    live: ApiClient, shop: Shop, world: World, operator: Operator, clock: ManualClock
) -> None:
    operator.does("hold-quota", "set", world.ours_live.scope.organisation_id, "6", "--mode", "live")
    expired = (await live.post(QUOTES, tonnes(shop, "3", hold_supply=True))).json()
    kept = (await live.post(QUOTES, tonnes(shop, "3", hold_supply=True))).json()
    order = (await live.post(BY_MASS, tonnes(shop, "3", quote_id=kept["id"]))).json()
    clock.now += QUOTE_LIFE
    late = await live.post(BY_MASS, tonnes(shop, "3", quote_id=expired["id"]))
    assert codes(late) == ["quote_expired"]
    assert [await is_held(live, id_) for id_ in (expired["id"], kept["id"])] == [False, True]
    # No worker has released it yet, but the quota counts it no more.
    assert (await live.post(QUOTES, tonnes(shop, "3", hold_supply=True))).status_code == 201
    assert await available(live, shop) == "1"
    clock.now += HOLD_GRACE
    await shop.run_jobs(shop.services.release_holds)
    assert await available(live, shop) == "4"
    await shop.check_invariants()
    assert (await live.post(f"/v1/orders/{order['id']}/cancel", {})).status_code == 200
    await shop.run_jobs(shop.services.release_holds)
    assert await available(live, shop) == "7"
    assert not await is_held(live, kept["id"])
    assert await shop.fetchval("SELECT count(*) FROM quotes WHERE is_holding") == 1
    await shop.execute("UPDATE supply_holds SET expires_at = now() - interval '2 hours'")
    assert list(await shop.breaches()) == ["holds that have ended are released"]
    await shop.execute("DELETE FROM supply_holds")
    assert list(await shop.breaches()) == ["live quotes hold what they say"]
    await shop.execute("UPDATE quotes SET is_holding = false")


async def test_an_invalid_lot_ends_holds_of_quotes(
    live: ApiClient, shop: Shop, world: World, operator: Operator
) -> None:
    operator.does("hold-quota", "set", world.ours_live.scope.account_id, "12")
    await shop.buy(await shop.account("Rival"), TONNE, "wind")
    await shop.services.allocate_orders.run_once()
    await shop.supply("W1", 2025, 5)
    ids = []
    for amount in ("4", "6"):
        answer = await live.post(QUOTES, tonnes(shop, amount, hold_supply=True))
        assert answer.status_code == 201
        ids.append(answer.json()["id"])
        shop.clock.advance(seconds=1)
    lot_id = await shop.fetchval("SELECT lot_id FROM parcels WHERE mode = 'live' LIMIT 1")
    await shop.invalidate(lot_id, "Reversed")
    assert await shop.fetchval(HELD) == 4 * TONNE
    assert await shop.fetchval("SELECT array_agg(held_grams) FROM quotes WHERE is_holding") == [4 * TONNE]
    assert [await is_held(live, id_) for id_ in ids] == [True, False]


async def test_a_quote_that_lost_a_part_of_its_hold_does_not_say_that_its_supply_is_held(
    live: ApiClient, shop: Shop, world: World, operator: Operator
) -> None:
    operator.does("hold-quota", "set", world.ours_live.scope.account_id, "12")
    await shop.sell("sun", {"S1": 1})
    await shop.supply("S1", 2024, 5)
    await shop.buy(await shop.account("Rival"), TONNE, "wind")
    await shop.services.allocate_orders.run_once()
    masses = [{"bundle_id": shop.bundle_id(name), "mass": {"amount": "2", "unit": "t"}} for name in ("sun", "wind")]
    quote = (await live.post(QUOTES, {"bundle_masses": masses, "hold_supply": True})).json()
    assert await is_held(live, quote["id"])
    await shop.invalidate(await shop.fetchval("SELECT lot_id FROM parcels WHERE mode = 'live' LIMIT 1"), "Reversed")
    assert await shop.fetchval("SELECT held_grams FROM quotes WHERE is_holding") == 2 * TONNE
    assert not await is_held(live, quote["id"])


async def test_quotes_that_race_never_exceed_quota_or_supply(
    live: ApiClient, shop: Shop, world: World, operator: Operator
) -> None:
    """6 t of quota for 10 quotes of a tonne; then 100 t of quota for the 4 t that are left."""
    scope = world.ours_live.scope
    operator.does("hold-quota", "set", scope.account_id, "6")
    for quota, held, code in ((None, 6, "hold_quota_exceeded"), ("100", 4, "insufficient_available_quantity")):
        if quota is not None:
            operator.does("hold-quota", "set", scope.account_id, quota)
        answers = await asyncio.gather(*(live.post(QUOTES, tonnes(shop, "1", hold_supply=True)) for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [201] * held + [409] * (10 - held)
        assert {codes(answer)[0] for answer in answers if answer.status_code == 409} == {code}
    assert (await available(live, shop), await shop.fetchval(HELD)) == ("0", 10 * TONNE)
    keyed = tonnes(shop, "1", idempotency_key="one")
    answers = await asyncio.gather(*(live.post(QUOTES, keyed) for _ in range(4)))
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_an_account_has_its_own_quota_or_that_of_its_organisation(
    api: ApiClient, services: Services, world: World, operator: Operator
) -> None:
    """In test mode supply does not run out, so that only the quota is counted."""
    scope, client_id = world.ours_test.scope, world.ours_test.client_account_id

    async def hold(amount: str, account_id: str) -> int:
        body = {"mass": {"amount": amount, "unit": "t"}, "hold_supply": True}
        return (await api.post(QUOTES, body, Service_Account=account_id)).status_code

    operator.does("hold-quota", "set", scope.organisation_id, "5", "--mode", "test")
    assert [await hold("3", scope.account_id), await hold("3", client_id), await hold("2", client_id)] == [
        201,
        409,
        201,
    ]
    operator.does("hold-quota", "set", client_id, "10")
    assert [await hold("8", client_id), await hold("1", client_id)] == [201, 409], "its own quota counts what it holds"
    assert [await hold("2", scope.account_id), await hold("1", scope.account_id)] == [201, 409]
    operator.does("hold-quota", "set", client_id, "none")
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM supply_holds") == 0
        entries = await connection.fetch(
            "SELECT subject_id, before ->> 'quota' AS before, after ->> 'quota' AS after FROM audit_log "
            "WHERE action = 'hold_quota.changed' ORDER BY id"
        )
    assert [tuple(entry) for entry in entries] == [
        (scope.organisation_id, None, "5 t"),
        (client_id, None, "10 t"),
        (client_id, "10 t", None),
    ]
    for words in (("acc_x", "5"), (client_id, "0"), (client_id, "much")):
        assert operator.is_refused("hold-quota", "set", *words), words
    assert operator.runs("hold-quota", "set", scope.organisation_id, "5").returncode == 2, "without a mode"
