"""Accounts and client accounts by API."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import check_restrictions

ACCOUNT = "/v1/accounts"
CLIENT = "/v1/accounts/client"
TONNE = {"mass": {"amount": "1", "unit": "t"}}
# In this order on the wire.
COMMON = [
    *("id", "organisation_id", "organisation_type", "name", "type", "scope", "currency", "beneficiary", "handle"),
    *("logo", "bundle_portfolio_id", "external_pages_visibility", "language", "payment_method", "created_at"),
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, key_refresh_s=0.0)


async def send(api: ApiClient, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    return await api.http.request(method, path, json=body, headers=api._headers(headers))


async def create_client(api: ApiClient, name: str = "Fjord Bakery", **body: Any) -> dict[str, Any]:
    answer = await api.post(CLIENT, {"name": name, "currency": "EUR", **body})
    assert answer.status_code == 201, answer.text
    account: dict[str, Any] = answer.json()
    return account


async def issue(services: Services, scope: Scope, *permissions: str, account_ids: list[str] | None = None) -> str:
    async with services.database.transaction() as tx:
        limits = check_restrictions(permissions or None, account_ids, [], None, utc_now())
        _, secret = await issue_key(tx, scope, "key", by=TESTER.now(), restrictions=limits)
    return secret


async def actions(services: Services, account_id: str) -> list[str]:
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT action FROM audit_log WHERE subject_id = $1 ORDER BY at, id", account_id)
    return [row["action"] for row in rows]


async def test_a_live_key_creates_an_account_in_both_modes(services: Services, api: ApiClient, world: World) -> None:
    live = api.as_key(world.ours_live.key)
    body = {"name": "Nordic", "currency": "SEK", "handle": "Nordic-1", "language": "de", "bundle_portfolio_id": "p"}
    refused = await api.post(ACCOUNT, body)
    assert (refused.status_code, codes(refused)) == (403, ["live_account_required"])
    answer = await live.post(ACCOUNT, {**body, "beneficiary": "Nordic AB", "external_pages_visibility": "hidden"})
    assert answer.status_code == 201, answer.text
    pair = answer.json()
    assert list(pair["live"]) == [*COMMON, "sibling_id"]
    assert (pair["live"]["sibling_id"], pair["test"]["sibling_id"]) == (pair["test"]["id"], pair["live"]["id"])
    assert [pair[mode]["type"] for mode in ("live", "test")] == ["live", "test"]
    for mode, key in (("live", live), ("test", api)):
        account = (await key.get(f"{ACCOUNT}/me", Service_Account=pair[mode]["id"])).json()
        assert account == {**pair[mode], "sibling_id": pair["test"]["id"] if mode == "live" else None}
        assert await actions(services, account["id"]) == ["account.opened"]
        found = (await key.get(f"{ACCOUNT}?name=NORD")).json()
        assert [each["id"] for each in found["data"]] == [account["id"]]
    expected = {
        "name": "Nordic",
        "beneficiary": "Nordic AB",
        "handle": "Nordic-1",
        "currency": "SEK",
        "scope": "account",
        "external_pages_visibility": "hidden",
        "language": "de",
        "organisation_type": "shipper",
        "logo": None,
        "bundle_portfolio_id": None,
        "payment_method": "invoice",
    }
    assert {name: pair["test"][name] for name in expected} == expected
    # A handle is unique in the organisation and mode, however it is written; another organisation may use it.
    for handle in ("nordic-1", "NORDIC-1"):
        taken = await live.post(ACCOUNT, {"name": "x", "currency": "EUR", "handle": handle})
        assert (taken.status_code, codes(taken), fields(taken)) == (409, ["handle_not_unique"], ["handle"])
    await create_client(api.as_key(world.theirs_test.key), handle="nordic-1")
    for change, code in (({"currency": "XXX"}, "currency_unknown"), ({"name": " "}, "name_invalid")):
        assert codes(await live.post(ACCOUNT, {**body, **change})) == [code]


async def test_a_client_account_is_created_once_per_key(services: Services, api: ApiClient, world: World) -> None:
    created = await create_client(api, idempotency_key="c-1", payment_method="card", reference=" Customer 7 ")
    assert list(created) == [*COMMON, "idempotency_key", "reference", "archived_at"]
    assert (created["scope"], created["beneficiary"], created["payment_method"]) == ("client_account", None, "card")
    assert (created["reference"], created["archived_at"]) == ("Customer 7", None)
    body = {"name": "Fjord Bakery", "currency": "EUR"}
    repeated = await api.post(CLIENT, body, Idempotency_Key="c-1")
    assert (repeated.status_code, repeated.json()) == (200, created)
    assert repeated.headers["idempotent-replayed"] == "true"
    other = await api.post(CLIENT, {**body, "name": "Other", "idempotency_key": "c-1"})
    assert (other.status_code, codes(other)) == (409, ["account_idempotency_already_exists"])
    # Of requests at the same time, one creates the account.
    twins = await asyncio.gather(*(api.post(CLIENT, {**body, "idempotency_key": "c-9"}) for _ in range(4)))
    assert sorted(each.status_code for each in twins) == [200, 200, 200, 201]
    assert len({each.json()["id"] for each in twins}) == 1
    # Another organisation has keys of its own.
    assert (await create_client(api.as_key(world.theirs_test.key), "Other", idempotency_key="c-1"))["name"] == "Other"
    # Without a beneficiary, credits are retired for the name of the account, also after it changes.
    order = await api.post("/v1/orders/by-mass", TONNE, Service_Account=created["id"])
    await send(api, "PATCH", f"{CLIENT}/{created['id']}", {"name": "Fjord Bakery AS", "payment_method": "invoice"})
    later = await api.post("/v1/orders/by-mass", TONNE, Service_Account=created["id"])
    async with services.database.connection() as connection:
        names = [
            await connection.fetchval("SELECT beneficiary FROM orders WHERE id = $1", each.json()["id"])
            for each in (order, later)
        ]
    assert names == ["Fjord Bakery", "Fjord Bakery AS"]


async def test_accounts_are_changed(services: Services, api: ApiClient, world: World) -> None:
    created = await create_client(api, beneficiary="Bakery", handle="bakery", reference="7", idempotency_key="c-1")
    await create_client(api, "Second", idempotency_key="c-2", handle="second")
    one = f"{CLIENT}/{created['id']}"
    # Left out keeps; null removes.
    changed = (await send(api, "PUT", one, {"name": "New", "external_pages_visibility": "private"})).json()
    assert changed == {**created, "name": "New", "external_pages_visibility": "private"}
    cleared = dict.fromkeys(("beneficiary", "handle", "reference", "idempotency_key"))
    answer = await send(api, "PATCH", one, {**cleared, "language": "nl"}, Idempotency_Key="not the account's")
    assert answer.json() == {**changed, **cleared, "language": "nl"}
    assert (await api.get(one)).json() == answer.json()
    assert (await api.get("/v1/account", Service_Account=created["id"])).json()["beneficiary"] == "New"
    assert (await send(api, "PATCH", one, {})).json() == answer.json()
    again = await send(api, "PATCH", one, {"beneficiary": "Bakery", "idempotency_key": "c-3"})
    assert (again.json()["beneficiary"], again.json()["idempotency_key"]) == ("Bakery", "c-3")
    assert await actions(services, created["id"]) == ["account.opened", *["account.updated"] * 3]
    for body, status, code in (
        ({"handle": "SECOND"}, 409, "handle_not_unique"),
        ({"idempotency_key": "c-2"}, 409, "account_idempotency_already_exists"),
        ({"handle": "not a handle"}, 400, "validation_error"),
        ({"language": "xx"}, 400, "validation_error"),
        ({"external_pages_visibility": "secret"}, 400, "validation_error"),
        ({"currency": "USD"}, 400, "validation_error"),
        ({"beneficiary": "\u0007"}, 400, "name_invalid"),
    ):
        refused = await send(api, "PATCH", one, body)
        assert (refused.status_code, codes(refused)) == (status, [code]), body
    assert codes(await send(api, "PUT", one, {"handle": "x"})) == ["validation_error"], "a name is required"
    # Payment by card is refused for orders on credit, in words for API clients.
    async with services.database.transaction() as tx:
        await tx.execute(
            "UPDATE accounts SET fulfil = 'on_order', credit_limit_minor = 100 WHERE id = $1", created["id"]
        )
    refused = await send(api, "PATCH", one, {"payment_method": "card"})
    assert (codes(refused), fields(refused)) == (["billing_invalid"], ["payment_method"])
    assert "--" not in refused.json()["error"]["message"]
    # Each kind has its own address.
    own = f"{ACCOUNT}/{world.ours_test.scope.account_id}"
    assert (await send(api, "PATCH", own, {"language": "fr", "idempotency_key": "x"})).json()["language"] == "fr"
    for path in (f"{ACCOUNT}/{created['id']}", f"{CLIENT}/{world.ours_test.scope.account_id}"):
        for method in ("GET", "PUT", "PATCH"):
            answer = await send(api, method, path, {"name": "x"} if method != "GET" else None)
            assert (answer.status_code, codes(answer)) == (404, ["account_not_found"])
    assert codes(await send(api, "PATCH", own, {"payment_method": "card"})) == ["validation_error"]


async def test_client_accounts_are_listed_with_what_they_did(api: ApiClient, world: World) -> None:
    names = [f"Client {number}" for number in range(3)]
    created = [await create_client(api, name) for name in names]
    for amount in ("1.5", "0.25"):
        body = {"mass": {"amount": amount, "unit": "t"}}
        await api.post("/v1/estimates", body, Service_Account=created[1]["id"])
    first = (await api.get(f"{CLIENT}?limit=2")).json()
    assert [each["name"] for each in first["data"]] == names[:0:-1]
    assert (first["data"][1]["number_of_estimates"], first["data"][1]["total_emissions"]) == (2, "1.75")
    assert first["data"][1]["last_active_date"] == utc_now().date().isoformat()
    last = (await api.get(f"{CLIENT}?limit=2&after={first['next_cursor']}")).json()
    assert [each["id"] for each in last["data"]] == [created[0]["id"], world.ours_test.client_account_id]
    idle = last["data"][0]
    assert idle == {**created[0], "last_active_date": None, "number_of_estimates": 0, "total_emissions": "0"}
    assert (last["has_more"], last["next_cursor"]) == (False, None)
    assert codes(await api.get(f"{CLIENT}?after={first['next_cursor']}&name=x")) == ["pagination_cursor_invalid"]
    assert codes(await api.get(f"{CLIENT}?limit=0")) == ["pagination_limit_invalid"]
    assert codes(await api.get(f"{CLIENT}?archived=yes")) == ["validation_error"]
    own = (await api.get(ACCOUNT)).json()["data"]
    assert [each["id"] for each in own] == [world.ours_test.scope.account_id]


async def test_nothing_is_ordered_for_an_archived_client_account(services: Services, api: ApiClient) -> None:
    created = await create_client(api)
    one, acting = f"{CLIENT}/{created['id']}", {"Service_Account": created["id"]}
    order = (await api.post("/v1/orders/by-mass", TONNE, **acting)).json()
    link = (await api.post("/v1/offset-links", {"title": "Offset"}, **acting)).json()
    sale = {"offset_link_id": link["id"], "email": "ann@example.com", "quantity": "1"}
    assert (await api.http.get(f"/offset/{link['id']}")).status_code == 200
    archived = (await api.http.post(f"{one}/archive", headers=api._headers({"Content-Type": "text/plain"}))).json()
    assert archived["archived_at"] is not None
    assert (await api.post(f"{one}/archive", {})).json() == archived
    for path, body in (
        ("/v1/orders/by-mass", TONNE),
        ("/v1/orders/by-mass/quote", TONNE),
        ("/v1/quotes", TONNE),
        ("/v1/checkouts", sale),
    ):
        refused = await api.post(path, body, **acting)
        assert (refused.status_code, codes(refused)) == (403, ["account_suspended"]), path
    assert (await api.http.get(f"/offset/{link['id']}")).status_code != 200
    assert (await api.get(f"/v1/orders/{order['id']}", **acting)).status_code == 200
    listed = {flag: (await api.get(f"{CLIENT}?archived={flag}")).json()["data"] for flag in ("true", "false")}
    assert [each["id"] for each in listed["true"]] == [created["id"]]
    assert created["id"] not in {each["id"] for each in listed["false"]}
    assert (await api.post(f"{one}/unarchive", {})).json() == created
    assert (await api.post("/v1/orders/by-mass", TONNE, **acting)).status_code == 201
    assert await actions(services, created["id"]) == ["account.opened", "account.archived", "account.unarchived"]


async def test_which_keys_manage_accounts(services: Services, api: ApiClient, world: World) -> None:
    ours = world.ours_test
    client_scope = Scope(ours.scope.organisation_id, ours.client_account_id, ours.scope.mode)
    created, own = await create_client(api), f"{CLIENT}/{ours.client_account_id}"
    # A client account reads itself and nothing else.
    client = api.as_key(await issue(services, client_scope))
    assert (await client.get(f"{CLIENT}/me")).json()["id"] == ours.client_account_id
    for answer in (
        await client.get(f"{ACCOUNT}/me"),
        await api.get(f"{CLIENT}/me"),
        await client.get(CLIENT),
        await client.post(CLIENT, {"name": "x", "currency": "EUR"}),
        await api.get(ACCOUNT, Service_Account=ours.client_account_id),
        # Naming another account does not make it one of the organisation's own keys.
        await client.get(ACCOUNT, Service_Account=ours.scope.account_id),
    ):
        assert (answer.status_code, codes(answer)) == (403, ["account_scope_incorrect"])
    for path in (own, f"{CLIENT}/{created['id']}"):
        assert codes(await send(client, "PATCH", path, {"name": "x"})) == ["account_not_found"]
    # Restricted keys: by permission, and by account.
    reader = api.as_key(await issue(services, ours.scope, "account:read"))
    assert (await reader.get(CLIENT)).status_code == 200
    assert codes(await send(reader, "PATCH", own, {"name": "x"})) == ["key_permission_missing"]
    assert codes(await reader.post(CLIENT, {"name": "x", "currency": "EUR"})) == ["key_permission_missing"]
    some = api.as_key(await issue(services, ours.scope, account_ids=[ours.scope.account_id, ours.client_account_id]))
    assert [each["id"] for each in (await some.get(CLIENT)).json()["data"]] == [ours.client_account_id]
    assert (await send(some, "PATCH", own, {"name": "Renamed"})).status_code == 200
    for answer in (
        await send(some, "PATCH", f"{CLIENT}/{created['id']}", {"name": "x"}),
        await some.post(CLIENT, {"name": "x", "currency": "EUR"}),
    ):
        assert (answer.status_code, codes(answer)) == (403, ["key_account_not_allowed"])
