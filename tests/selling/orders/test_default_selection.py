"""Without `bundle_selection` the account's default applies, else its organisation's, else the catalogue's."""

from typing import Any

from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode
from tonne.selling.accounts.store import set_account_selection, set_organisation_selection


def shares(order: dict[str, Any]) -> dict[str, str]:
    return {line["bundle_id"]: line["quantity"] for line in order["bundles"]}


async def test_the_nearest_default_applies(api: ApiClient, world: World, populated_db: Database) -> None:
    scope, bundles = world.ours_test.scope, world.bundles_test
    catalogues = {bundles["forest-mix"]: "0.6", bundles["clean-cooking"]: "0.4"}
    assert shares(await api.order()) == catalogues
    organisations = [{"bundle_id": bundles["wind-power"], "percentage": "100"}]
    async with populated_db.transaction() as tx:
        await set_organisation_selection(tx, scope.organisation_id, Mode.TEST, organisations)
    assert shares(await api.order()) == {bundles["wind-power"]: "1"}
    accounts = [{"bundle_id": bundles["living-soil"]}, {"bundle_id": bundles["forest-mix"]}]
    async with populated_db.transaction() as tx:
        await set_account_selection(tx, scope, accounts)
    assert shares(await api.order()) == {bundles["living-soil"]: "0.5", bundles["forest-mix"]: "0.5"}
    async with populated_db.transaction() as tx:
        await set_account_selection(tx, scope, None)
    assert shares(await api.order()) == {bundles["wind-power"]: "1"}
    async with populated_db.transaction() as tx:
        await set_organisation_selection(tx, scope.organisation_id, Mode.TEST, None)
    assert shares(await api.order()) == catalogues


async def test_a_default_applies_to_its_owner_only(api: ApiClient, world: World, populated_db: Database) -> None:
    ours, bundles = world.ours_test, world.bundles_test
    async with populated_db.transaction() as tx:
        await set_account_selection(tx, ours.scope, [{"bundle_id": bundles["living-soil"]}])
        await set_organisation_selection(
            tx, ours.scope.organisation_id, Mode.TEST, [{"bundle_id": bundles["wind-power"]}]
        )
    assert set(shares(await api.order())) == {bundles["living-soil"]}
    one_tonne = {"mass": {"amount": "1", "unit": "t"}}
    beside = await api.post("/v1/orders/by-mass", one_tonne, Service_Account=ours.client_account_id)
    assert set(shares(beside.json())) == {bundles["wind-power"]}
    catalogues = {"forest-mix", "clean-cooking"}
    live = await api.as_key(world.ours_live.key).order()
    assert set(shares(live)) == {world.bundles_live[slug] for slug in catalogues}
    theirs = await api.as_key(world.theirs_test.key).order()
    assert set(shares(theirs)) == {bundles[slug] for slug in catalogues}


async def test_the_default_also_prices_estimates_and_quotes(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    bundle = world.bundles_test["wind-power"]
    async with populated_db.transaction() as tx:
        await set_account_selection(tx, world.ours_test.scope, [{"bundle_id": bundle}])
    one_tonne = {"mass": {"amount": "1", "unit": "t"}}
    assert shares((await api.post("/v1/estimates", one_tonne)).json()["quote"]) == {bundle: "1"}
    assert shares((await api.post("/v1/orders/by-mass/quote", one_tonne)).json()) == {bundle: "1"}


async def test_a_line_that_known_supply_does_not_cover_is_marked_and_the_order_is_accepted(
    api: ApiClient, world: World
) -> None:
    """The demo catalogue holds 25 t of durable removal. Only live supply runs out."""
    api = api.as_key(world.ours_live.key)
    scarce, plenty = world.bundles_live["durable-removal"], world.bundles_live["forest-mix"]
    for amount, short in (("25", False), ("25.000001", True), ("1000", True)):
        order = await api.order(mass={"amount": amount, "unit": "t"}, bundle_selection=[{"bundle_id": scarce}])
        assert order["status"] == "placed"
        assert [line["insufficient_available_quantity"] for line in order["bundles"]] == [short]
    both = [{"bundle_id": scarce}, {"bundle_id": plenty}]
    order = await api.order(mass={"amount": "60", "unit": "t"}, bundle_selection=both)
    assert [line["insufficient_available_quantity"] for line in order["bundles"]] == [True, False]


async def test_what_is_allocated_is_not_available_any_more(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    api, scarce = api.as_key(world.ours_live.key), world.bundles_live["durable-removal"]
    assert (await api.get(f"/v1/bundles/{scarce}")).json()["available_quantity"] == "25"
    async with populated_db.connection() as connection:
        await connection.execute(
            "UPDATE lots SET allocated_grams = 4500000 WHERE mode = 'live' AND project_id IN"
            " (SELECT id FROM projects WHERE slug = 'charm-bio-oil')"
        )
    assert (await api.get(f"/v1/bundles/{scarce}")).json()["available_quantity"] == "20.5"
    order = await api.order(mass={"amount": "21", "unit": "t"}, bundle_selection=[{"bundle_id": scarce}])
    assert order["bundles"][0]["insufficient_available_quantity"] is True
