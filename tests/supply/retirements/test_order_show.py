"""`tonne order show` names what an order waits for."""

from tests.supply.retirements.shop import TONNE, Shop
from tests.supply.retirements.test_endpoints import helped, pay, simulate, waiting
from tests.support.api_client import ApiClient
from tests.support.command import Operator
from tests.support.world import Tenant

__all__ = ["waiting"]


def waits_for(shop: Shop, order_id: str) -> str:
    return Operator(shop.database._url).facts("order", "show", order_id)["waits for"]


async def test_a_paid_order_waits_for_supply_then_for_its_retirements(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    order = await live.buy(await live.account("Ann"), 2 * TONNE, "wind")
    await live.work()
    assert waits_for(live, order.id).startswith("supply: credits of the projects in its bundles")
    await live.supply("A", 2020, 10)
    await live.work()
    assert waits_for(live, order.id).startswith("its retirements (`tonne retirement list --mode live`)")


async def test_a_test_order_waits_for_simulated_supply_or_for_a_helper(
    api: ApiClient, trial: Shop, waiting: Tenant
) -> None:
    order = await api.order()
    assert waits_for(trial, order["id"]).startswith("a test helper")
    await simulate(api, "0.5")
    await pay(trial, waiting.scope, order["id"])
    assert (await helped(api, order["id"], "complete")).status_code == 409
    assert waits_for(trial, order["id"]).startswith("a test helper")
    await simulate(api, None)
    assert (await helped(api, order["id"], "complete")).status_code == 200
    assert waits_for(trial, order["id"]) == "-"
