"""An order with a locked quote costs exactly what was quoted, or is refused."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START, ManualClock
from tests.support.scene import Scene
from tests.support.world import TESTER, World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Clock, Mode, to_wire
from tonne.selling.accounts.organisations import change_organisation
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.orders.quotes.lock_quotes import QUOTE_LIFE
from tonne.selling.orders.quotes.prune_quotes import KEPT, PruneQuotes
from tonne.supply.stock.lots.import_lots import import_files

AMOUNTS = ("currency", "quantity", "offset_cost", "commission", "total_cost", "tax", "amount_due", "bundles")
BY_MASS, QUOTES = "/v1/orders/by-mass", "/v1/quotes"
TONNES = {"mass": {"amount": "2.345678", "unit": "t"}}


@pytest.fixture
def clock() -> Clock:
    return ManualClock(START)


async def lock(api: ApiClient, body: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(QUOTES, body)
    assert answer.status_code == 201, answer.text
    quote: dict[str, Any] = answer.json()
    return quote


async def change_everything(services: Services, world: World) -> None:
    """Other prices, rates, fee and tax; and what was quoted is not on sale any more."""
    now = services.clock()
    rates = b"base,quote,rate,source,as_of\nEUR,USD,3.21,bank,2026-11-01T08:00:00Z\n"
    async with services.database.transaction() as tx:
        files = {FileKind.EXCHANGE_RATES: SheetFile("rates.csv", rates)}
        await import_files(tx, Mode.TEST, files, by=TESTER.at(now))
        await tx.execute("UPDATE bundles SET unit_price_minor = unit_price_minor * 3, enabled = false")
        await tx.execute("UPDATE catalogues SET version = version + 1")
        organisation_id = world.ours_test.scope.organisation_id
        await change_organisation.set_fee_rate(tx, organisation_id, Decimal("0.25"), by=TESTER.at(now))


async def test_an_order_costs_exactly_what_was_quoted(
    api: ApiClient, services: Services, world: World, clock: ManualClock
) -> None:
    first, second, *_ = world.bundles_test.values()
    async with services.database.transaction() as tx:
        dollars = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "USD")
    client = api.as_key(dollars.key)
    selection = [{"bundle_id": first, "percentage": "12.50"}, {"bundle_id": second, "percentage": "87.50"}]
    ways: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("by-mass", TONNES, {}),
        ("by-mass", TONNES, {"bundle_selection": selection, "quantity_trunc": "kg"}),
        ("by-mass", {"bundle_masses": [{"bundle_id": first, **TONNES}, {"bundle_id": second, **TONNES}]}, {}),
        ("by-value", {"value": "123.45"}, {"bundle_selection": selection}),
        ("by-estimate", {"estimate_id": await client.estimate()}, {}),
    ]
    quotes = [await lock(client, {**amount, **more}) for _, amount, more in ways]
    for (way, amount, more), quote in zip(ways, quotes, strict=True):
        unlocked = (await client.post(f"/v1/orders/{way}/quote", {**amount, **more})).json()
        assert {name: quote[name] for name in unlocked} == unlocked
        assert quote["expires_at"] == to_wire(clock() + QUOTE_LIFE)
        assert (quote["status"], quote["order_id"], quote["supply_held"]) == ("open", None, False)
    await change_everything(services, world)
    clock.now += QUOTE_LIFE - QUOTE_LIFE / 30
    for (way, amount, more), quote in zip(ways, quotes, strict=True):
        body = {**amount, "quote_id": quote["id"], "idempotency_key": quote["id"]}
        order = (await client.post(f"/v1/orders/{way}", body)).json()
        assert {name: order[name] for name in AMOUNTS} == {name: quote[name] for name in AMOUNTS}, way
        assert (order["quote_id"], order["status"]) == (quote["id"], "placed")
        assert (order["requested_quantity"], order["requested_value"]) == (
            quote["requested_quantity"],
            quote["requested_value"],
        )
        replayed = await client.post(f"/v1/orders/{way}", {**body, **more})
        assert (replayed.status_code, replayed.json()) == (200, order)
        used = (await client.get(f"{QUOTES}/{quote['id']}")).json()
        assert used == {**quote, "status": "used", "order_id": order["id"]}
    scene = Scene(services, clock)
    await scene.check_invariants()
    await scene.execute("UPDATE quotes SET order_id = 'ord_x' WHERE id = $1", quotes[0]["id"])
    assert list(await scene.breaches()) == ["an order costs what its quote says"]
    for job in (services.issue_invoices, services.follow_up_invoices, services.follow_up_invoices):
        await job.run_once()
    await scene.run_jobs(services.allocate_orders, services.retire_units)
    done = (await client.get("/v1/orders?limit=1")).json()["data"][0]
    assert (done["status"], done["quote_id"]) == ("complete", quotes[-1]["id"])


async def test_a_quote_is_refused_with_a_reason(
    api: ApiClient, services: Services, world: World, clock: ManualClock
) -> None:
    first, second, *_ = world.bundles_test.values()
    selection = [{"bundle_id": first, "percentage": "50"}, {"bundle_id": second, "percentage": "50"}]
    quote = await lock(api, {**TONNES, "bundle_selection": selection})
    body: dict[str, Any] = {**TONNES, "quote_id": quote["id"]}

    async def refused(more: dict[str, Any], way: str = "by-mass", client: ApiClient = api) -> tuple[int, str, Any]:
        answer = await client.post(f"/v1/orders/{way}", more)
        [code], [field] = codes(answer), fields(answer)
        return answer.status_code, code, field

    mismatch = (409, "quote_mismatch")
    assert await refused({**body, "mass": {"amount": "2.345677", "unit": "t"}}) == (*mismatch, "mass")
    assert await refused({"value": "5.00", "quote_id": quote["id"]}, "by-value") == (*mismatch, "value")
    other = [{**selection[0], "percentage": "40"}, {**selection[1], "percentage": "60"}]
    assert await refused({**body, "bundle_selection": other}) == (*mismatch, "bundle_selection")
    assert await refused({**body, "quantity_trunc": "kg"}) == (*mismatch, "quantity_trunc")
    estimate_id = await api.estimate("2.345678")
    by_estimate = {"estimate_id": estimate_id, "quote_id": quote["id"]}
    assert await refused(by_estimate, "by-estimate") == (*mismatch, "estimate_id")
    theirs = api.as_key(world.theirs_test.key)
    assert await refused(body, client=theirs) == (400, "quote_not_found", "quote_id")
    assert await refused({**body, "quote_id": "quo_x"}) == (400, "quote_not_found", "quote_id")
    for client in (theirs, api.as_key(world.ours_live.key)):
        answer = await client.get(f"{QUOTES}/{quote['id']}")
        assert (answer.status_code, codes(answer)) == (404, ["quote_not_found"])

    placed = await api.post(
        BY_MASS, {**body, "bundle_selection": [{**selection[1], "percentage": "50.00"}, selection[0]]}
    )
    assert placed.status_code == 201
    assert await refused(body) == (409, "quote_used", "quote_id")
    in_batch = (await api.post("/v1/orders/batch", {"orders": [body, TONNES]})).json()["data"]
    assert [each["status"] for each in in_batch] == [409, 201]

    late, method = await lock(api, TONNES), await lock(api, TONNES)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET payment_method = 'card'")
    services.directory.forget_terms(world.ours_test.scope)
    assert await refused({**TONNES, "quote_id": method["id"]}) == (409, "quote_expired", "quote_id")
    clock.now += QUOTE_LIFE
    assert await refused({**TONNES, "quote_id": late["id"]}) == (409, "quote_expired", "quote_id")
    assert (await api.get(f"{QUOTES}/{late['id']}")).json()["status"] == "expired"
    prune = PruneQuotes(services.database, clock)
    clock.now += KEPT
    await prune.run_once()
    assert (await api.get(f"{QUOTES}/{late['id']}")).status_code == 200
    clock.advance(seconds=1)
    await prune.run_once()
    assert (await api.get(f"{QUOTES}/{late['id']}")).status_code == 404
    assert (await api.get(f"/v1/orders/{placed.json()['id']}")).json()["quote_id"] == quote["id"]


async def test_a_quote_is_used_once_however_many_orders_race(api: ApiClient, services: Services) -> None:
    quote = await lock(api, TONNES)
    body = {**TONNES, "quote_id": quote["id"]}
    answers = await asyncio.gather(
        *(api.post(BY_MASS, {**body, "idempotency_key": f"k{number % 4}"}) for number in range(12))
    )
    placed = {answer.json()["id"] for answer in answers if answer.status_code in {200, 201}}
    assert len(placed) == 1
    assert sorted(answer.status_code for answer in answers) == [200, 200, 201] + [409] * 9
    assert {codes(answer)[0] for answer in answers if answer.status_code == 409} == {"quote_used"}
    scene = Scene(services)
    assert await scene.fetchval("SELECT count(*) FROM orders") == 1
    await scene.check_invariants()


async def test_quotes_are_idempotent_and_validated(api: ApiClient, world: World) -> None:
    body = {**TONNES, "idempotency_key": "offer"}
    answers = await asyncio.gather(*(api.post(QUOTES, body) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.content for answer in answers}) == 1
    other = await api.post(QUOTES, {"value": "1.00", "idempotency_key": "offer"})
    assert (other.status_code, other.headers["idempotency-mismatch"]) == (200, "true")
    replayed = await api.post(QUOTES, {"idempotency_key": "offer"})
    assert (replayed.status_code, replayed.content) == (200, answers[0].content), "a used key is replayed"

    mass, selection = TONNES["mass"], [{"bundle_id": next(iter(world.bundles_test.values()))}]
    for wrong, code, field in (
        ({}, "validation_error", "estimate_id"),
        ({**TONNES, "value": "1.00"}, "validation_error", "mass"),
        ({"bundle_masses": []}, "validation_error", "bundle_masses"),
        (
            {"bundle_masses": [{**selection[0], "mass": mass}], "bundle_selection": selection},
            "validation_error",
            "bundle_masses",
        ),
        ({"estimate_id": "est_x"}, "estimate_not_found", "estimate_id"),
        ({"value": "0.001"}, "order_value_invalid", "value"),
        ({"mass": {"amount": "0", "unit": "t"}}, "order_quantity_invalid", "mass.amount"),
        ({**TONNES, "metadata": {}}, "validation_error", "metadata"),
        ({**TONNES, "hold_supply": "yes"}, "validation_error", "hold_supply"),
    ):
        answer = await api.post(QUOTES, wrong)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), wrong
