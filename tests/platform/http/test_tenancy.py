"""Access rules and tenant isolation of every route, generated from the table of routes: new routes are included."""

import re
import uuid
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import httpx
import pytest

from tests.channels.checkout.shopper import Shopper, make_link
from tests.platform.http.estimate_requests import ESTIMATES, create_estimate
from tests.selling.estimates.purchases.factor_set import import_transaction_factors
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.model import temporary_id_of
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.channels.webhooks.schemas import RewindIn, SkipIn
from tonne.money.refunds.schemas import ReduceIn
from tonne.platform.http.route import Access, Route
from tonne.platform.values.context import Mode, new_id, replace, utc_now
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key

PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
# What an account has published itself.
PUBLIC_IN_V1 = {
    "/v1/sustainability-pages/public/{type}/{slug}",
    "/v1/sustainability-pages/public/{organisation_id}/{type}/{handle}",
}
ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


def test_every_route_declares_its_access_and_nothing_under_v1_is_public(services: Services) -> None:
    routes = services.routes()
    assert {"/v1/orders", "/v1/orders/by-estimate", "/health/ready", "/docs/"} <= {route.path for route in routes}
    for route in routes:
        assert isinstance(route.access, Access), route.path
        if route.path.startswith("/v1"):
            assert route.access is (Access.PUBLIC if route.path in PUBLIC_IN_V1 else Access.API_KEY), route.path
    # Public paths have no account, have an unguessable URL, or were published by the account.
    public = {route.path for route in routes if route.access is Access.PUBLIC} - PUBLIC_IN_V1
    assert {path.split("/")[1] for path in public} == {
        # The start page.
        "",
        # security.txt
        ".well-known",
        "apple-touch-icon.png",
        "assets",
        "card",
        "certificates",
        "checkout",
        # Status lists of certificates.
        "credentials",
        # Signing in, and the links in mails to users.
        "dashboard",
        "docs",
        "favicon.ico",
        # Asks for an address, and answers the same for all of them: the links are mailed to it.
        "find-orders",
        # Events of the card gateway, which are signed.
        "gateways",
        "health",
        "images",
        # The transparency log: tiles, checkpoints, and retirements that the operator discloses.
        "log",
        "logo",
        "o",
        "offset",
        "openapi.json",
        "pictures",
        # Projects of the catalogue, with sums of all accounts.
        "projects",
        "robots.txt",
        "social",
        "sustainability",
        "verify",
        "widget",
    }


def test_no_path_has_two_routes(services: Services) -> None:
    places = [(route.method, route.path) for route in services.routes()]
    assert len(places) == len(set(places))


async def test_every_route_gives_the_same_401_without_a_key(services: Services, api: ApiClient) -> None:
    """The same on every route. Without the header, the message says so, which reveals nothing about keys."""
    bodies: dict[bool, set[str]] = {False: set(), True: set()}
    wrong = ("Bearer tonne_test_" + "A" * 43, "Bearer x", "Basic dG9ubmU6eA==", "Bearer", "")
    for route in services.routes():
        if route.access is not Access.API_KEY:
            continue
        path = PARAMETER.sub("x", route.path)
        for headers in ({}, *({"Authorization": value} for value in wrong)):
            answer = await api.http.request(route.method, path, headers=headers)
            assert (answer.status_code, codes(answer)) == (401, ["unauthorised"]), route.path
            assert answer.headers["www-authenticate"] == "Bearer"
            bodies["Authorization" in headers].add(without_request_id(answer))
    assert [len(found) for found in bodies.values()] == [1, 1]
    assert "There is no Authorization header." in bodies[False].pop()
    assert "There is no" not in bodies[True].pop()


class Ours(Enum):
    """Who may use an id. For everyone else it must look like an id that does not exist."""

    ACCOUNT = auto()
    ORGANISATION = auto()
    MODE = auto()
    # One set of emission factors for all.
    EVERYONE = auto()


# By the name in the paths. A route with a new name needs an entry here and an id below.
OWNERS = {
    "order_id": Ours.ACCOUNT,
    "credit_note_id": Ours.ACCOUNT,
    "idempotency_key": Ours.ACCOUNT,
    "estimate_id": Ours.ACCOUNT,
    **dict.fromkeys((f"{kind}_estimate_id" for kind in ESTIMATES), Ours.ACCOUNT),
    "factor_id": Ours.EVERYONE,
    "transaction_key": Ours.ACCOUNT,
    "quote_id": Ours.ACCOUNT,
    "offset_link_id": Ours.ACCOUNT,
    "checkout_id": Ours.ACCOUNT,
    "temporary_id": Ours.ORGANISATION,
    "account_id": Ours.ORGANISATION,
    "client_account_id": Ours.ORGANISATION,
    "webhook_id": Ours.ORGANISATION,
    "event_id": Ours.ORGANISATION,
    "api_key_id": Ours.ORGANISATION,
    # One catalogue for every tenant of a mode.
    "bundle_id": Ours.MODE,
    "project_id": Ours.MODE,
    "project_slug": Ours.MODE,
}
UNKNOWN = {
    "order_id": new_id("ord"),
    "credit_note_id": new_id("crn"),
    "idempotency_key": "other%20key",
    "estimate_id": new_id("est"),
    **{f"{kind}_estimate_id": new_id("est") for kind in ESTIMATES},
    "transaction_key": "other%20card",
    "factor_id": "owid-2023/electricity-xxx/kwh",
    "quote_id": new_id("quo"),
    "offset_link_id": new_id("lnk"),
    "checkout_id": new_id("chk"),
    "temporary_id": str(uuid.uuid4()),
    "account_id": new_id("acc"),
    "client_account_id": new_id("acc"),
    "webhook_id": new_id("wh"),
    "event_id": new_id("evt"),
    "api_key_id": new_id("key"),
    "bundle_id": new_id("bun"),
    "project_id": new_id("prj"),
    "project_slug": "no-such-project",
}


@pytest.fixture
async def existing(api: ApiClient, services: Services, world: World) -> dict[str, str]:
    """An id of every kind that exists, of `ours` in test mode."""
    order = await api.order(idempotency_key="shared key")
    for job in (
        services.issue_invoices,
        services.follow_up_invoices,
        services.follow_up_invoices,
        services.allocate_orders,
        services.retire_units,
        services.allocate_orders,
    ):
        await job.run_once()
    assert (await api.get(f"/v1/orders/{order['id']}")).json()["status"] == "complete"
    async with services.database.transaction() as tx:
        # Both modes have the same demo projects: a slug that only one of them has.
        await tx.execute(
            "UPDATE projects SET slug = 'only-in-test-mode' "
            "WHERE id = (SELECT min(id) FROM projects WHERE mode = 'test')"
        )
        await tx.execute("UPDATE catalogues SET version = version + 1")
        webhook, _ = await register_webhook(
            tx,
            world.ours_test.scope,
            WebhookRequest("https://hooks.example.com"),
            box=services.box,
            by=TESTER.now(),
        )
    await import_transaction_factors(services.database)
    link = await make_link(services, world.ours_test.scope)
    shopper = Shopper(api.http)
    checkout = await shopper.begin(link)
    await shopper.pay(checkout)
    made = await api.post("/v1/checkouts", {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1"})
    cancelled = await api.order()
    await services.issue_invoices.run_once()
    await api.post(f"/v1/orders/{cancelled['id']}/cancel", {})
    [note] = (await api.get(f"/v1/orders/{cancelled['id']}/credit-notes")).json()["data"]
    return {
        "credit_note_id": note["id"],
        "order_id": order["id"],
        "offset_link_id": link.id,
        "checkout_id": made.json()["id"],
        "temporary_id": temporary_id_of(checkout.removeprefix("/checkout/")),
        "idempotency_key": "shared%20key",
        "account_id": world.ours_test.scope.account_id,
        "client_account_id": world.ours_test.client_account_id,
        "estimate_id": await api.estimate(),
        **{f"{kind}_estimate_id": await create_estimate(api, kind) for kind in ESTIMATES},
        "transaction_key": "shared%20card",
        "factor_id": "owid-2023/electricity-deu/kwh",
        "quote_id": (await api.post("/v1/quotes", ONE_TONNE)).json()["id"],
        "webhook_id": webhook.id,
        "api_key_id": world.ours_test.key_id,
        "event_id": (await api.get("/v1/events?limit=1")).json()["data"][0]["event_id"],
        "bundle_id": next(iter(world.bundles_test.values())),
        "project_id": (await api.get("/v1/projects?limit=1")).json()["data"][0]["id"],
        "project_slug": "only-in-test-mode",
    }


@dataclass(frozen=True, slots=True)
class Stranger:
    """A client without access to the ids of `existing`, except to those that belong to one of `shares`."""

    kind: str
    client: ApiClient
    # Sent as the header that names the account to act for.
    account_id: str | None = None
    shares: frozenset[Ours] = frozenset()
    # What it gets instead of 404, whatever the id.
    refused: int | None = None

    async def ask(self, route: Route, path: str, body: Any = None) -> httpx.Response:
        headers = {} if self.account_id is None else {"Service_Account": self.account_id}
        return await ask(self.client, route, path, body=body, **headers)


@pytest.fixture
async def strangers(api: ApiClient, services: Services, world: World) -> list[Stranger]:
    """Eight kinds of clients that must not see what belongs to the account of `ours_test`."""
    theirs, ours = world.theirs_test, world.ours_test
    now = utc_now()
    async with services.database.transaction() as tx:
        theirs_live = await open_tenant(tx, theirs.scope.organisation_id, Mode.LIVE)
        their_client = replace(theirs.scope, account_id=theirs.client_account_id)
        _, their_client_key = await issue_key(tx, their_client, "client", by=TESTER.at(now))
        revoked, revoked_key = await issue_key(tx, ours.scope, "revoked", by=TESTER.at(now))
        await revoke_key(tx, revoked.id, by=TESTER.at(now))
        # Otherwise the routes of keys would refuse everyone.
        await tx.execute("UPDATE api_keys SET rights = '{api_keys}'")
    mode, everyone = frozenset({Ours.MODE, Ours.EVERYONE}), frozenset({Ours.EVERYONE})
    return [
        Stranger("another organisation", api.as_key(theirs.key), shares=mode),
        Stranger("another organisation in live mode", api.as_key(theirs_live.key), shares=everyone),
        Stranger("a client account of another organisation", api.as_key(their_client_key), shares=mode),
        Stranger("our organisation in live mode", api.as_key(world.ours_live.key), shares=everyone),
        Stranger("our client account", api, ours.client_account_id, mode | {Ours.ORGANISATION}),
        Stranger("another organisation acting for our account", api.as_key(theirs.key), ours.scope.account_id),
        Stranger("our key acting for their account", api, theirs.scope.account_id),
        Stranger("a revoked key", api.as_key(revoked_key), refused=401),
    ]


async def test_an_id_in_a_path_is_unknown_to_clients_without_access(
    services: Services, api: ApiClient, strangers: list[Stranger], existing: dict[str, str]
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET refunds_by_api = true")
    routes = routes_with_an_id(services)
    paths = [[PARAMETER.sub(ids[name], route.path) for ids in (existing, UNKNOWN)] for route, name in routes]
    before = await _owned(api, routes, paths)
    walked: set[tuple[str, str]] = set()
    for (route, name), (known, unknown) in zip(routes, paths, strict=True):
        needed = {RewindIn: existing["event_id"], SkipIn: existing["event_id"], ReduceIn: "0.5"}
        body = (
            {"quantity" if route.body is ReduceIn else "event_id": needed[route.body]} if route.body in needed else {}
        )
        for stranger in strangers:
            if OWNERS[name] in stranger.shares:
                continue
            seen = [await stranger.ask(route, path, body) for path in (known, unknown)]
            where = f"{stranger.kind}: {route.method} {route.path}"
            assert seen[0].status_code == (stranger.refused or 404), where
            assert without_request_id(seen[0]) == without_request_id(seen[1]), where
            assert set(seen[0].headers) == set(seen[1].headers), where
            walked.add((stranger.kind, route.path))
    assert {kind for kind, _ in walked} == {stranger.kind for stranger in strangers}
    assert {path for _, path in walked} == {route.path for route, _ in routes}
    assert await _owned(api, routes, paths) == before, "a stranger changed something"


async def _owned(api: ApiClient, routes: list[tuple[Route, str]], paths: list[list[str]]) -> list[bytes]:
    """What the owner reads from every route."""
    found = []
    for (route, _), (known, _) in zip(routes, paths, strict=True):
        if route.method == "GET":
            answer = await api.get(known)
            assert answer.status_code == 200, f"{route.path}: the id of this test must exist"
            # A token has new salts each time.
            found.append(b"" if route.path.endswith("/selective-credential") else answer.content)
    return found


async def test_routes_without_an_id_show_and_change_nothing_of_others(
    services: Services, api: ApiClient, strangers: list[Stranger], existing: dict[str, str]
) -> None:
    routes = [route for route in services.routes() if route.access is Access.API_KEY and "{" not in route.path]
    lists = [route.path for route in routes if route.method == "GET"]
    # A page that is not saved only proposes a slug, which changes when another account takes it.
    await api.http.put("/v1/sustainability-page", json={}, headers=api._headers({}))
    # One of them is refused: it is for client accounts.
    before = [without_request_id(await api.get(path)) for path in lists]
    for route in routes:
        for stranger in strangers:
            if stranger.kind == "our client account":
                # It acts in the same organisation, whose lists it shares. The test below is about orders.
                continue
            answer = await stranger.ask(route, route.path, {})
            hidden = [name for name in existing if OWNERS[name] not in stranger.shares]
            where = f"{stranger.kind}: {route.method} {route.path}"
            assert not any(existing[name] in answer.text for name in hidden), where
            assert answer.status_code == (stranger.refused or answer.status_code), where
            if stranger.account_id is not None:
                assert (answer.status_code, codes(answer)) == (404, ["account_not_found"]), where
    assert [without_request_id(await api.get(path)) for path in lists] == before, "a stranger changed something"


def routes_with_an_id(services: Services) -> list[tuple[Route, str]]:
    found = []
    for route in services.routes():
        names = PARAMETER.findall(route.path)
        if route.access is Access.API_KEY and names:
            assert len(names) == 1, f"{route.path}: teach this test about two ids"
            assert names[0] in OWNERS, f"{route.path}: teach this test to whom a {names[0]} belongs"
            found.append((route, names[0]))
    return found


async def ask(client: ApiClient, route: Route, path: str, *, body: Any, **headers: str) -> httpx.Response:
    return await client.http.request(
        route.method, path, headers=client._headers(headers), json=body if route.body else None
    )


async def test_an_id_in_a_body_is_unknown_to_clients_without_access(
    strangers: list[Stranger], existing: dict[str, str]
) -> None:
    bodies: list[tuple[str, Any]] = [
        ("estimate_id", lambda ids: ("/v1/orders/by-estimate", {"estimate_id": ids["estimate_id"]})),
        ("estimate_id", lambda ids: ("/v1/orders/by-estimate/quote", {"estimate_id": ids["estimate_id"]})),
        ("bundle_id", lambda ids: ("/v1/orders/by-mass", _selecting(ids))),
        ("bundle_id", lambda ids: ("/v1/orders/by-mass/quote", _selecting(ids))),
    ]
    for name, make in bodies:
        for stranger in strangers:
            if OWNERS[name] in stranger.shares:
                continue
            headers = {} if stranger.account_id is None else {"Service_Account": stranger.account_id}
            seen = [await stranger.client.post(*make(ids), **headers) for ids in (existing, UNKNOWN)]
            # The account in the header comes first: it is not theirs to act for.
            acts_for_others = "acting for" in stranger.kind
            assert seen[0].status_code == (stranger.refused or (404 if acts_for_others else 400))
            assert without_request_id(seen[0]) == without_request_id(seen[1])


def _selecting(ids: dict[str, str]) -> dict[str, Any]:
    return {**ONE_TONNE, "bundle_selection": [{"bundle_id": ids["bundle_id"]}]}


async def test_lists_contain_only_the_items_of_the_scope(
    services: Services, api: ApiClient, world: World, existing: dict[str, str]
) -> None:
    lists = [route.path for route in services.routes() if route.method == "GET" and route.path.count("/") == 2]
    shared = {Ours.MODE, Ours.EVERYONE}
    for path in lists:
        if path.startswith("/v1/"):
            for tenant in (world.theirs_test, world.ours_live):
                text = (await api.as_key(tenant.key).get(f"{path}?limit=100")).text
                assert not any(existing[name] in text for name in existing if OWNERS[name] not in shared), path
    strangers = [
        await api.as_key(world.theirs_test.key).get("/v1/orders?limit=100"),
        await api.as_key(world.ours_live.key).get("/v1/orders?limit=100"),
        await api.get("/v1/orders?limit=100", Service_Account=world.ours_test.client_account_id),
    ]
    assert {answer.text for answer in strangers} == {'{"has_more":false,"next_cursor":null,"data":[]}'}
    live = api.as_key(world.ours_live.key)
    for path in ("/v1/bundles?limit=100", "/v1/projects?limit=100"):
        ids = {item["id"] for item in (await live.get(path)).json()["data"]}
        assert ids
        assert not ids & set(existing.values())


def without_request_id(answer: httpx.Response) -> str:
    return answer.text.replace(answer.headers["x-request-id"], "")
