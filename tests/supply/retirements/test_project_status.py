"""Orders and their events show which of their projects are retired."""

import asyncio
from typing import Any

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient
from tests.support.events import stored_events
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, ProjectStatus
from tonne.supply.stock.parcels.confirm_retirements import Confirmation, confirm_retirements_any_account

DOCUMENT = "SELECT wire_document FROM orders WHERE id = $1"


def statuses(order: dict[str, Any]) -> dict[str, str]:
    return {project["project_name"]: project["status"] for project in order["projects"]}


async def events(shop: Shop, order: Order) -> dict[str, dict[str, str]]:
    """The statuses in the last two events."""
    async with shop.database.connection() as connection:
        stored = await stored_events(connection, order.id)
    return {event.event_type: statuses(event.content["data"]["order"]) for event in stored[-2:]}


async def sell_wind(shop: Shop, *, b_is_retired: bool = False) -> Order:
    """A paid order of two tonnes from each of two projects."""
    await shop.sell("wind", {"A": 1, "B": 1})
    await shop.supply("A", 2020, 10)
    await shop.supply("B", 2020, 10, retired=b_is_retired)
    return await shop.buy(await shop.account("Ada"), 4 * TONNE, "wind")


async def test_interface_5_an_order_shows_which_of_its_projects_are_retired(live: Shop) -> None:
    order = await sell_wind(live)
    await live.work()
    assert statuses(await live.shown(order)) == {"Project A": "allocated", "Project B": "allocated"}
    first, second = sorted(await live.work_list(), key=lambda task: task.serial)
    await live.confirm(first)
    await live.work()
    shown = await live.shown(order)
    assert shown["status"] == "retiring"
    assert statuses(shown) == {"Project A": "retired", "Project B": "allocated"}
    await live.check_invariants()
    await live.confirm(second)
    await live.work()
    shown = await live.shown(order)
    assert shown["status"] == "complete"
    assert statuses(shown) == {"Project A": "retired", "Project B": "retired"}
    assert await events(live, order) == {
        "order.retiring": {"Project A": "allocated", "Project B": "allocated"},
        "order.completed": {"Project A": "retired", "Project B": "retired"},
    }
    await live.check_invariants()


async def test_interface_5_credits_that_were_retired_before_the_sale_are_shown_as_retired(live: Shop) -> None:
    order = await sell_wind(live, b_is_retired=True)
    await live.work()
    expected = {"Project A": "allocated", "Project B": "retired"}
    assert statuses(await live.shown(order)) == expected
    assert (await events(live, order))["order.retiring"] == expected


async def test_interface_5_a_project_with_an_unretired_parcel_is_not_retired(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2019, 1)
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), 3 * TONNE, "wind")
    await live.work()
    first, second = await live.work_list()
    await live.confirm(first)
    await live.work()
    assert statuses(await live.shown(order)) == {"Project A": "allocated"}
    await live.confirm(second)
    await live.work()
    assert statuses(await live.shown(order)) == {"Project A": "retired"}


async def test_a_project_whose_two_parcels_are_confirmed_at_the_same_time_is_retired(live: Shop) -> None:
    """Each of the two transactions sees the parcel of the other one as unretired until it waits for the order."""
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2019, 1)
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), 3 * TONNE, "wind")
    await live.work()
    first, second = await live.work_list()
    confirmed = [Confirmation(id_, live.clock.now.date(), None) for id_ in first.parcel_ids]
    async with live.database.transaction() as tx:
        await confirm_retirements_any_account(tx, live.mode, confirmed, live.clock.now)
        waiting = asyncio.create_task(live.confirm(second))
        await live.until_waiting_for_lock()
    await waiting
    async with live.database.connection() as connection:
        (loaded,) = await load_orders(connection, [order.key])
    assert [project.status for project in loaded.projects] == [ProjectStatus.RETIRED]
    await live.check_invariants()


async def test_interface_5_the_test_helper_shows_what_it_retired(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    scope = trial.world.ours_test.scope
    await trial.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", scope.account_id)
    order = await trial.buy(scope, TONNE, "wind")
    answer = await api.post(f"/v1/test-helpers/orders/{order.id}/retire", {})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["status"], statuses(answer.json())) == ("retiring", {"Project A": "retired"})
