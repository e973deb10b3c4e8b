"""Requests that name their client account in the body: it is found or made before they are processed."""

import asyncio
from typing import Any

import pytest

from tests.selling.accounts.test_manage_accounts import CLIENT, actions, create_client, issue
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Access

KEYED = {"name": "Fjord Bakery", "currency": "EUR", "idempotency_key": "client-1"}
NAMED = {"name": "Fjord Bakery", "currency": "EUR", "handle": "fjord"}
MASS = {"mass": {"amount": "1", "unit": "t"}}


async def clients(api: ApiClient) -> list[dict[str, Any]]:
    """Those that the tests make."""
    found: list[dict[str, Any]] = (await api.get(f"{CLIENT}?name=Fjord")).json()["data"]
    return found


@pytest.mark.parametrize("sent", [KEYED, NAMED])
async def test_the_account_is_made_once_and_the_order_is_its_own(
    services: Services, api: ApiClient, sent: dict[str, str]
) -> None:
    body = {**MASS, "client_account": sent, "idempotency_key": "order-1"}
    first = await api.post("/v1/orders/by-mass", body)
    assert first.status_code == 201, first.text
    [client] = await clients(api)
    assert {name: client[name] for name in sent} == sent
    assert await actions(services, client["id"]) == ["account.opened"]
    repeated = await api.post("/v1/orders/by-mass", body)
    assert (repeated.status_code, repeated.json()["id"]) == (200, first.json()["id"])
    assert repeated.headers.get("idempotency-mismatch") is None
    # The same as with the header, so that a client may change from one to the other.
    by_header = await api.post(
        "/v1/orders/by-mass", {**MASS, "idempotency_key": "order-1"}, Service_Account=client["id"]
    )
    assert by_header.json()["id"] == first.json()["id"]
    assert by_header.headers.get("idempotency-mismatch") is None
    path = f"/v1/orders/{first.json()['id']}"
    assert (await api.get(path)).status_code == 404
    assert (await api.get(path, Service_Account=client["id"])).status_code == 200
    assert len(await clients(api)) == 1


async def test_every_kind_of_request_takes_it(api: ApiClient) -> None:
    flight = {"route": {"amount": "1000", "unit": "km"}}
    bodies: dict[str, dict[str, Any]] = {
        "/v1/estimates": MASS,
        "/v1/estimates/flight": flight,
        "/v1/orders/by-mass/quote": MASS,
        "/v1/orders/by-value": {"value": "20.00"},
        "/v1/orders/batch": {"orders": [MASS]},
        "/v1/quotes": MASS,
        "/v1/offset-links": {"title": "Offset your flight"},
    }
    for path, body in bodies.items():
        made = await api.post(path, {**body, "client_account": NAMED}, Idempotency_Key=path)
        assert made.status_code in {200, 201}, (path, made.text)
    [client] = await clients(api)
    assert client["number_of_estimates"] == 2
    assert len((await api.get("/v1/orders", Service_Account=client["id"])).json()["data"]) == 2
    assert (await api.get("/v1/orders")).json()["data"] == []
    # The key belongs to the client account.
    link = {"title": "Offset your flight"}
    again = await api.post("/v1/offset-links", link, Idempotency_Key="/v1/offset-links", Service_Account=client["id"])
    assert (again.status_code, again.headers.get("idempotency-mismatch")) == (200, None)
    assert (await api.post("/v1/offset-links", link, Idempotency_Key="/v1/offset-links")).status_code == 201
    nothing = await api.post("/v1/estimates", {**MASS, "client_account": None})
    assert nothing.status_code == 201
    escaped = rb'{"value": "20.00", "client\u005faccount": {"name": "A", "currency": "EUR", "handle": "a"}}'
    assert (await api.post_raw("/v1/orders/by-value", escaped)).status_code == 201
    assert (await api.get("/v1/orders")).json()["data"] == []


async def test_one_of_requests_at_the_same_time_makes_it(api: ApiClient) -> None:
    for sent in (KEYED, NAMED):
        made = await asyncio.gather(*(api.post("/v1/estimates", {**MASS, "client_account": sent}) for _ in range(4)))
        assert [each.status_code for each in made] == [201] * 4
    assert len(await clients(api)) == 2


async def test_it_needs_what_creating_a_client_account_needs(services: Services, api: ApiClient, world: World) -> None:
    scope = world.ours_test.scope
    client = await create_client(api, handle="fjord")
    body = {**MASS, "client_account": NAMED}
    orders_only = api.as_key(await issue(services, scope, "orders:write"))
    refused = await orders_only.post("/v1/orders/by-mass", body)
    assert (refused.status_code, codes(refused)) == (403, ["key_permission_missing"])
    assert "account:write" in refused.text
    both = api.as_key(await issue(services, scope, "orders:write", "account:write"))
    assert (await both.post("/v1/orders/by-mass", body)).status_code == 201
    some = api.as_key(await issue(services, scope, account_ids=[scope.account_id]))
    assert codes(await some.post("/v1/orders/by-mass", body)) == ["key_account_not_allowed"]
    acting = await api.post("/v1/orders/by-mass", body, Service_Account=client["id"])
    assert codes(acting) == ["account_scope_incorrect"]
    # Another organisation makes its own.
    await api.as_key(world.theirs_test.key).post("/v1/estimates", body)
    assert len(await clients(api)) == 1


@pytest.mark.parametrize(
    ("sent", "code", "field"),
    [
        ({"name": "A", "currency": "EUR"}, "validation_error", "client_account"),
        ("acc_1", "validation_error", "client_account"),
        ({"currency": "EUR", "handle": "a"}, "validation_error", "client_account.name"),
        ({**NAMED, "shoe_size": 4}, "validation_error", "client_account.shoe_size"),
        ({**NAMED, "currency": "XXX"}, "currency_unknown", "client_account.currency"),
        ({**NAMED, "handle": "own"}, "handle_not_unique", "client_account.handle"),
        ({**KEYED, "name": "Other"}, "account_idempotency_already_exists", "client_account.idempotency_key"),
    ],
)
async def test_mistakes_are_named_and_nothing_is_done(
    api: ApiClient, world: World, sent: Any, code: str, field: str
) -> None:
    await create_client(api, idempotency_key="client-1")
    await api.http.patch(
        f"/v1/accounts/{world.ours_test.scope.account_id}", json={"handle": "own"}, headers=api._headers({})
    )
    refused = await api.post("/v1/orders/by-mass", {**MASS, "client_account": sent})
    assert (codes(refused), fields(refused)) == ([code], [field])
    assert len(await clients(api)) == 1


async def test_items_of_an_array_and_other_requests_do_not_take_it(api: ApiClient, services: Services) -> None:
    item = {"kind": "flight", "route": {"amount": "1000", "unit": "km"}, "client_account": NAMED}
    [result] = (await api.post("/v1/estimates/batch", [item])).json()
    assert result["error"]["field"] == "client_account"
    assert codes(await api.post("/v1/webhooks", {"url": "https://1.1.1.1/", "client_account": NAMED})) == [
        "validation_error"
    ]
    taking = {f"{route.method} {route.path}" for route in services.routes() if route.client_account is not None}
    assert {"POST /v1/orders/by-estimate", "PUT /v1/estimates/flight/{flight_estimate_id}"} <= taking
    assert all(
        route.access is Access.API_KEY and route.client_account is None
        for route in services.routes()
        if route.path.startswith("/v1/accounts")
    )
