"""Closed accounts and organisations."""

import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

TONNE = {"mass": {"amount": "1", "unit": "t"}}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, key_refresh_s=0.0)


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, secret_key=services.settings.secret_key)


async def test_nothing_new_is_ordered_of_a_closed_account(api: ApiClient, operator: Operator, world: World) -> None:
    ours = world.ours_test
    main_key = api.as_key(operator.does("key", "create", ours.client_account_id))
    order = await api.order(idempotency_key="before")
    said = operator.does("account", "close", ours.scope.account_id, "--reason", "The contract ended")
    assert said.startswith(f"Account {ours.scope.account_id} is closed.")
    refused = await api.get(f"/v1/orders/{order['id']}")
    assert (refused.status_code, codes(refused)) == (403, ["account_closed"]), "its keys stop"
    # A key of another account of the organisation still reads, but orders nothing for it.
    as_ours = {"Service_Account": ours.scope.account_id}
    assert (await main_key.get(f"/v1/orders/{order['id']}", **as_ours)).status_code == 200
    for path in ("/v1/orders/by-mass", "/v1/orders/by-mass/quote"):
        refused = await main_key.post(path, TONNE, **as_ours)
        assert (refused.status_code, codes(refused)) == (403, ["account_closed"])
    replayed = await main_key.post("/v1/orders/by-mass", {**TONNE, "idempotency_key": "before"}, **as_ours)
    assert replayed.json()["id"] == order["id"]
    await main_key.order()
    facts = operator.facts("account", "show", ours.scope.account_id)
    assert facts["closed reason"] == "The contract ended"
    assert "already closed" in operator.is_refused("account", "close", ours.scope.account_id, "--reason", "x")
    operator.does("account", "reopen", ours.scope.account_id)
    await api.order()
    assert "not closed" in operator.is_refused("account", "reopen", ours.scope.account_id)
    actions = [line.split()[3] for line in operator.does("audit", "--subject", ours.scope.account_id).splitlines()[1:]]
    assert actions[:2] == ["account.reopened", "account.closed"]


async def test_an_organisation_is_closed_with_all_its_accounts(
    api: ApiClient, operator: Operator, world: World
) -> None:
    ours = world.ours_test
    organisation_id = ours.scope.organisation_id
    operator.does("account", "close", ours.client_account_id, "--reason", "Unused")
    said = operator.does("org", "close", organisation_id, "--reason", "Out of business")
    assert said == f"Organisation {organisation_id} and its 4 accounts are closed."
    for key in (ours.key, world.ours_live.key):
        assert codes(await api.as_key(key).get("/v1/orders")) == ["account_closed"]
    assert (await api.as_key(world.theirs_test.key).get("/v1/orders")).status_code == 200
    assert operator.facts("org", "show", organisation_id)["closed"] != "-"
    operator.does("org", "reopen", organisation_id)
    await api.order()
    refused = await api.post("/v1/orders/by-mass", TONNE, Service_Account=ours.client_account_id)
    assert codes(refused) == ["account_closed"], "it was closed itself"


async def test_links_of_a_closed_account_are_closed(api: ApiClient, operator: Operator, world: World) -> None:
    account_id = world.ours_test.scope.account_id
    address = operator.does("link", "create", "--account", account_id, "--title", "Offset")
    path = address.removeprefix("https://offsets.example.com")
    assert (await api.http.get(path)).status_code == 200
    operator.does("account", "close", account_id, "--reason", "Closed")
    page = await api.http.get(path)
    assert page.status_code == 404
    operator.does("account", "reopen", account_id)
    assert (await api.http.get(path)).status_code == 200


async def test_the_card_of_a_closed_account_is_removed_once_no_order_needs_it(
    api: ApiClient, operator: Operator, world: World, services: Services
) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("card", "set", account_id, "--method", "4242424242424242")
    operator.does("account", "update", account_id, "--payment-method", "card")
    order = await api.order()
    operator.does("account", "close", account_id, "--reason", "Closed")
    assert await services.remove_closed_cards.run_once()
    assert operator.facts("card", "show", account_id)["last four"] == "4242", "an open order needs it"
    await services.charge_cards[Mode.TEST].run_once()
    assert operator.facts("order", "show", order["id"])["money"] == "paid", "open orders finish"
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE account_cards SET removal_at = now() - interval '1 s'")
    assert await services.remove_closed_cards.run_once()
    assert "has no card" in operator.is_refused("card", "show", account_id)
    assert not await services.remove_closed_cards.run_once()
    log = operator.does("audit", "--subject", account_id, "--action", "card.removed", "--json")
    assert '"actor":"system:remove_closed_cards"' in log


@pytest.mark.parametrize("closed", ["account", "organisation"])
async def test_a_card_that_is_stored_after_the_closing_is_removed_too(
    operator: Operator, world: World, services: Services, closed: str
) -> None:
    """A payer may enter a card for open orders."""
    scope = world.ours_test.scope
    group, subject = ("account", scope.account_id) if closed == "account" else ("org", scope.organisation_id)
    operator.does(group, "close", subject, "--reason", "Closed")
    operator.does("card", "set", scope.account_id, "--method", "4242424242424242")
    assert await services.remove_closed_cards.run_once()
    assert "has no card" in operator.is_refused("card", "show", scope.account_id)


async def test_a_reopened_account_keeps_its_card(operator: Operator, world: World, services: Services) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("card", "set", account_id, "--method", "4242424242424242")
    operator.does("account", "close", account_id, "--reason", "A mistake")
    operator.does("account", "reopen", account_id)
    assert not await services.remove_closed_cards.run_once()
    assert operator.facts("card", "show", account_id)["last four"] == "4242"


def test_the_public_page_is_taken_offline_on_request(operator: Operator, world: World) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("page", "set", account_id, "--title", "Ours", "--enable")
    operator.does("account", "close", account_id, "--reason", "Closed")
    assert operator.facts("page", "show", account_id)["enabled"] == "yes"
    operator.does("account", "reopen", account_id)
    operator.does("account", "close", account_id, "--reason", "Closed", "--disable-page")
    assert operator.facts("page", "show", account_id)["enabled"] == "no"
