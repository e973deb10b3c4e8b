"""Retirements, certificates and the test helpers over HTTP."""

import asyncio
import hashlib
from typing import Any

import httpx
import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, Tenant
from tonne.platform.values.context import Mode, Scope, new_id, replace
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.store import find_account, update_account
from tonne.selling.orders.load import load_order, load_orders
from tonne.selling.orders.model import Order, OrderKey
from tonne.supply.retirements.allocate_orders import allocate_orders

QUARTER = {"amount": "250", "unit": "kg"}


def without_request_id(answer: httpx.Response) -> bytes:
    return answer.content.replace(answer.headers["x-request-id"].encode(), b"")


async def pay(shop: Shop, scope: Scope, order_id: str) -> None:
    await shop.pay(await found(shop, scope, order_id))


@pytest.fixture
async def waiting(trial: Shop) -> Tenant:
    """Our test account, which waits for the helpers."""
    tenant = trial.world.ours_test
    async with trial.services.database.transaction() as tx:
        account = await find_account(tx, tenant.scope)
        assert account is not None
        await update_account(tx, replace(account, auto_advance=False))
    return tenant


@pytest.fixture
async def sold(trial: Shop) -> str:
    """A bundle with ten held tonnes; its id."""
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    return trial.bundle_id("wind")


async def simulate(api: ApiClient, available: str | None) -> None:
    answer = await api.http.put(
        "/v1/test-helpers/supply", json={"available_quantity": available}, headers=api._headers({})
    )
    assert (answer.status_code, answer.json()) == (200, {"available_quantity": available})


async def helped(api: ApiClient, order_id: str, verb: str) -> httpx.Response:
    return await api.post(f"/v1/test-helpers/orders/{order_id}/{verb}", {})


async def test_an_account_that_waits_stays_paid_until_the_helpers_move_it(
    api: ApiClient, trial: Shop, waiting: Tenant, sold: str
) -> None:
    bought = {"mass": {"amount": "1.25", "unit": "t"}, "bundle_selection": [{"bundle_id": sold}]}
    orders = [await api.order(**bought) for _ in range(3)]
    for order in orders:
        await pay(trial, waiting.scope, order["id"])
    await trial.work()
    first, second, third = (order["id"] for order in orders)
    for order_id in (first, second, third):
        assert (await api.get(f"/v1/orders/{order_id}")).json()["status"] == "paid"

    answer = await helped(api, first, "retire")
    assert (answer.status_code, answer.json()["status"]) == (200, "retiring")
    assert [project["quantity"] for project in answer.json()["projects"]] == ["1.25"]
    await trial.work()
    assert (await api.get(f"/v1/orders/{first}")).json()["status"] == "complete"

    answer = await helped(api, second, "complete")
    assert (answer.status_code, answer.json()["status"]) == (200, "complete")
    assert answer.json()["certificate"] == f"http://tonne.test/v1/orders/{second}/certificate"
    assert (await api.get(f"/v1/orders/{third}")).json()["status"] == "paid", "no helper was called for this one"
    # One unit serves both fractions, and none is left for a person to retire.
    cuts = await trial.cuts()
    assert [(cut.allocated_grams, cut.status) for cut in cuts] == [
        (TONNE, "retired"),
        (500_000, "retired"),
        (TONNE, "retired"),
    ]
    await trial.check_invariants()


async def test_retiring_then_completing(api: ApiClient, trial: Shop, waiting: Tenant, sold: str) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": sold}])
    await pay(trial, waiting.scope, order["id"])
    for verb, status in (("retire", "retiring"), ("retire", "retiring"), ("complete", "complete")):
        assert (await helped(api, order["id"], verb)).json()["status"] == status
    for verb in ("retire", "complete"):
        answer = await helped(api, order["id"], verb)
        assert (answer.status_code, codes(answer)) == (409, ["order_transition_invalid"])
    await trial.check_invariants()


@pytest.mark.usefixtures("waiting")
async def test_a_helper_refuses_what_is_not_paid_or_not_ours(api: ApiClient, trial: Shop, sold: str) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": sold}])
    for verb in ("retire", "complete"):
        answer = await helped(api, order["id"], verb)
        assert (answer.status_code, codes(answer)) == (409, ["order_transition_invalid"])
        foreign = await helped(api.as_key(trial.world.theirs_test.key), order["id"], verb)
        unknown = await helped(api, new_id("ord"), verb)
        assert (foreign.status_code, codes(foreign)) == (404, ["order_not_found"])
        assert without_request_id(foreign) == without_request_id(unknown)
    assert (await api.get(f"/v1/orders/{order['id']}")).json()["status"] == "placed"


async def test_a_helper_says_so_when_supply_is_short_and_changes_nothing(
    api: ApiClient, trial: Shop, waiting: Tenant, sold: str
) -> None:
    await simulate(api, "10")
    order = await api.order(mass={"amount": "11", "unit": "t"}, bundle_selection=[{"bundle_id": sold}])
    await pay(trial, waiting.scope, order["id"])
    for verb in ("retire", "complete"):
        answer = await helped(api, order["id"], verb)
        assert (answer.status_code, codes(answer)) == (409, ["supply_short"])
    await simulate(api, None)
    await trial.work()
    assert (await api.get(f"/v1/orders/{order['id']}")).json()["status"] == "paid", "new supply does not move it either"
    assert (await helped(api, order["id"], "complete")).json()["status"] == "complete"
    await trial.check_invariants()


@pytest.mark.parametrize("allocated", [True, False], ids=["allocated before", "still paid"])
async def test_money_18_helpers_for_orders_that_share_a_unit_do_not_deadlock(
    api: ApiClient, trial: Shop, waiting: Tenant, sold: str, *, allocated: bool
) -> None:
    for _ in range(5):
        orders = [await api.order(mass=QUARTER, bundle_selection=[{"bundle_id": sold}]) for _ in range(4)]
        ids = [order["id"] for order in orders]
        for order_id in ids:
            await pay(trial, waiting.scope, order_id)
        if allocated:
            async with trial.services.database.transaction() as tx:
                paid = await load_orders(tx, [OrderKey(waiting.scope.account_id, order_id) for order_id in ids])
                await allocate_orders(tx, paid, trial.services.settings, trial.clock.now)
        responses = await asyncio.gather(*(helped(api, order_id, "complete") for order_id in ids))
        assert [(each.status_code, each.json().get("status")) for each in responses] == [(200, "complete")] * 4
    await trial.check_invariants()


async def test_live_keys_find_no_helpers(api: ApiClient, trial: Shop) -> None:
    live = api.as_key(trial.world.ours_live.key)
    order = await live.order()
    nowhere = await live.post("/v1/test-helpers/orders/x/nothing", {})
    assert (nowhere.status_code, codes(nowhere)) == (404, ["route_not_found"])
    for verb in ("retire", "complete"):
        answer = await helped(live, order["id"], verb)
        assert (answer.status_code, without_request_id(answer)) == (404, without_request_id(nowhere))


async def test_the_certificate_over_http(api: ApiClient, trial: Shop, sold: str) -> None:
    scope, other = trial.world.ours_test.scope, api.as_key(trial.world.theirs_test.key)
    mass = {"amount": "1.5", "unit": "t"}
    order = await api.order(mass=mass, bundle_selection=[{"bundle_id": sold}])
    paths = [f"/v1/orders/{order['id']}/certificate", f"/v1/orders/{order['id']}/certificate.json"]
    for path in paths:
        answer = await api.get(path)
        assert (answer.status_code, codes(answer)) == (404, ["certificate_not_available"])
    await pay(trial, scope, order["id"])
    await trial.work()
    complete = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert complete["certificate"] == f"http://tonne.test{paths[0]}"

    pdf = await api.get(paths[0])
    assert (pdf.status_code, pdf.headers["content-type"]) == (200, "application/pdf")
    assert pdf.content.startswith(b"%PDF-")
    facts = (await api.get(paths[1])).json()
    state = {"state": "valid", "replaced_by": None, "state_reason": None, "state_changed_at": None}
    assert facts == await trial.certificate(await found(trial, scope, order["id"])) | state
    assert (await api.get(f"/v1/orders/{order['id']}/certificates")).json()["data"] == [facts]
    assert (await api.get(f"{paths[1]}?number={facts['number'].lower()}")).json() == facts
    unknown = await api.get(f"{paths[0]}?number=7XKD-M2QH-9RTV-4WNC")
    assert (unknown.status_code, codes(unknown)) == (404, ["certificate_not_available"])
    assert (facts["order_id"], facts["total_quantity"], facts["mode"]) == (order["id"], "1.5", "test")
    assert f'filename="certificate-{facts["number"]}.pdf"' in pdf.headers["content-disposition"]
    async with trial.services.database.connection() as connection:
        digests = await connection.fetch("SELECT sha256 FROM certificate_documents WHERE number = $1", facts["number"])
    assert [row["sha256"] for row in digests] == [hashlib.sha256(pdf.content).digest()], "it can be recognised later"

    client_account = {"Service_Account": trial.world.ours_test.client_account_id}
    for path in paths:
        unknown = await api.get(path.replace(order["id"], new_id("ord")))
        assert (unknown.status_code, codes(unknown)) == (404, ["order_not_found"])
        foreign = [await other.get(path), await api.get(path, **client_account)]
        foreign.append(await api.as_key(trial.world.ours_live.key).get(path))
        assert {without_request_id(answer) for answer in foreign} == {without_request_id(unknown)}


async def found(shop: Shop, scope: Scope, order_id: str) -> Order:
    async with shop.services.database.connection() as connection:
        order = await load_order(connection, scope, order_id)
    assert order is not None
    return order


async def retirements(api: ApiClient, query: str = "") -> list[dict[str, Any]]:
    answer = await api.get(f"/v1/retirements{query}")
    assert answer.status_code == 200, answer.text
    listed: list[dict[str, Any]] = answer.json()["data"]
    return listed


async def test_retirements_show_the_own_shares_only(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    ours, theirs = await trial.account("Ada"), await trial.account("Berta", of=trial.world.theirs_test.scope)
    mine = await trial.buy(ours, 2_400_000, "wind")
    await trial.buy(theirs, 300_000, "wind")
    again = await trial.buy(ours, 100_000, "wind")
    await trial.work()
    # Our two whole tonnes, and a unit that others share: only our own shares of it are shown.
    shared, whole = sorted(await retirements(api), key=lambda each: str(each["quantity"]))
    assert {key: whole[key] for key in ("registry", "registry_project_id", "project_name", "country", "vintage")} == {
        "registry": "Our Registry",
        "registry_project_id": "A",
        "project_name": "Project A",
        "country": "Kenya",
        "vintage": 2020,
    }
    assert (whole["serials"], whole["quantity"], whole["beneficiary"]) == ("test-A-1 101–102", "2", "Ada")
    assert (whole["retired_on"], whole["recorded_at"]) == ("2026-03-01", "2026-03-01T09:00:00.003Z")
    assert (shared["serials"], shared["quantity"], shared["beneficiary"]) == ("test-A-1 103", "1", "Tonne")
    assert sorted((share["order_id"], share["quantity"]) for share in shared["shares"]) == sorted(
        [(mine.id, "0.4"), (again.id, "0.1")]
    )
    assert {(share["account_id"], share["beneficiary"]) for share in shared["shares"]} == {(ours.account_id, "Ada")}
    (seen,) = await retirements(api.as_key(trial.world.theirs_test.key))
    assert (seen["id"], [share["quantity"] for share in seen["shares"]]) == (shared["id"], ["0.3"])
    assert await retirements(api.as_key(trial.world.ours_live.key)) == [], "live and test never mix"


async def test_only_what_is_retired_is_listed(api: ApiClient, live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), 2_400_000, "wind")
    await live.work()
    ours = api.as_key(live.world.ours_live.key)
    assert await retirements(ours) == []
    await live.confirm(*await live.work_list())
    (listed,) = await retirements(ours)
    assert [(share["order_id"], share["quantity"]) for share in listed["shares"]] == [(order.id, "2")]
    assert listed["retirement_url"] == f"https://registry.verra.org/{listed['id']}"


async def test_retirements_come_page_by_page_each_once(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 50)
    ours = await trial.account("Ada")
    for _ in range(7):
        await trial.buy(ours, TONNE, "wind")
        await trial.work()
    whole = [each["id"] for each in await retirements(api)]
    assert whole == sorted(whole, reverse=True)
    assert len(whole) == 7
    seen: list[str] = []
    after = ""
    while True:
        answer = (await api.get(f"/v1/retirements?limit=3{after}")).json()
        seen += [each["id"] for each in answer["data"]]
        # What arrives meanwhile is newer, and disturbs nothing.
        await trial.buy(ours, TONNE, "wind")
        await trial.work()
        assert answer["has_more"] == (answer["next_cursor"] is not None)
        if not answer["has_more"]:
            break
        after = f"&after={answer['next_cursor']}"
    assert seen == whole
    cursor = (await api.get("/v1/retirements?limit=1")).json()["next_cursor"]
    foreign = await api.as_key(trial.world.theirs_test.key).get(f"/v1/retirements?after={cursor}")
    assert (foreign.status_code, codes(foreign)) == (400, ["pagination_cursor_invalid"])


async def test_every_account_of_the_organisation_sees_the_same_list(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    ours = await trial.account("Ada")
    await trial.buy(ours, TONNE, "wind")
    await trial.work()
    async with trial.services.database.transaction() as tx:
        _, key = await issue_key(
            tx, Scope(ours.organisation_id, ours.account_id, Mode.TEST), "k", by=TESTER.at(trial.clock.now)
        )
    assert await retirements(api.as_key(key)) == await retirements(api) != []
