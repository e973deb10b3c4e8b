"""Every POST below /v1 replays with an idempotency key, or is listed here with the reason why it creates nothing."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.platform.http.estimate_requests import ESTIMATE_PATHS, ESTIMATES
from tests.selling.estimates.purchases.factor_set import import_transaction_factors
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Route

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
PAGE = {"status": "enabled", "slug": "ours", "title": "by_volume", "sections": ["certificates"]}
RECEIVER = {"url": "https://1.1.1.1/hook"}
CREATES_NOTHING = {
    **dict.fromkeys(
        (f"POST /v1/orders/by-{way}/quote" for way in ("estimate", "mass", "value")), "a price, which is not stored"
    ),
    **dict.fromkeys(
        (
            f"POST /v1/test-helpers/orders/{{order_id}}/{step}"
            for step in ("cancel", "complete", "decline", "dispute", "pay", "retire", "settle-invoice")
        ),
        "moves a test order to its next status, which it can reach only once",
    ),
    "POST /v1/test-helpers/accounts/{account_id}/collect": "bills what waits: a repeat finds nothing left",
    "POST /v1/orders/{order_id}/release": "ends a wait: a repeat changes nothing",
    "POST /v1/accounts/{account_id}/logo": "replaces the logo: a repeat changes nothing",
    "POST /v1/accounts/client/{client_account_id}/logo": "replaces the logo: a repeat changes nothing",
    "POST /v1/accounts/client/{client_account_id}/archive": "sets a state: a repeat changes nothing",
    "POST /v1/accounts/client/{client_account_id}/unarchive": "sets a state: a repeat changes nothing",
    "POST /v1/persons/export": "reads",
    "POST /v1/persons/erase": "erases: a repeat finds nothing left",
    "POST /v1/webhooks/{webhook_id}/test": "sends an event that is not stored",
    "POST /v1/webhooks/{webhook_id}/retry-now": "makes deliveries due",
    "POST /v1/webhooks/{webhook_id}/rewind": "sets a position: a repeat sets the same",
    "POST /v1/webhooks/{webhook_id}/skip": "gives up an event, which is possible only once",
}
# Their items say whether they are replays.
BATCHES = {"POST /v1/orders/batch", "POST /v1/estimates/batch", "POST /v1/estimates/transactions/batch"}


@pytest.fixture
async def managing(api: ApiClient, services: Services) -> ApiClient:
    """The key of `api`, which may also manage keys and refund."""
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET rights = '{api_keys}'")
        await tx.execute("UPDATE accounts SET refunds_by_api = true")
    return api


@dataclass
class Bodies:
    """A body for every route that creates something, and the ids in their paths."""

    api: ApiClient
    services: Services
    ids: dict[str, str] = field(default_factory=dict)

    async def prepare(self) -> None:
        await import_transaction_factors(self.services.database)
        self.ids = {
            "webhook_id": (await self.api.post("/v1/webhooks", RECEIVER)).json()["id"],
            "api_key_id": (await self.api.post("/v1/api-keys", {"name": "Web shop"})).json()["id"],
            "offset_link_id": (await self.api.post("/v1/offset-links", {"title": "Offset"})).json()["id"],
            "order_id": await self._paid_order(),
            "order_to_cancel": await self._paid_order(),
        }

    async def _paid_order(self) -> str:
        order_id = str((await self.api.order())["id"])
        async with self.services.database.transaction() as tx:
            await tx.execute(
                "UPDATE orders SET payment_method = 'card', fulfil_manually = true WHERE id = $1", order_id
            )
        paid = await self.api.post(f"/v1/test-helpers/orders/{order_id}/pay", {})
        assert paid.status_code == 200, paid.text
        return order_id

    async def of_routes(self) -> dict[str, Any]:
        estimates = {
            f"POST /v1/estimates/{ESTIMATE_PATHS.get(kind, kind.replace('_', '-'))}": _without_key(body)
            for kind, body in ESTIMATES.items()
        }
        return {
            **estimates,
            "POST /v1/estimates": ONE_TONNE,
            "POST /v1/estimates/batch": [{"kind": "flight", **ESTIMATES["flight"]}] * 2,
            "POST /v1/estimates/transactions/batch": [_without_key(ESTIMATES["transaction"])] * 2,
            "POST /v1/orders/batch": {"orders": [ONE_TONNE, ONE_TONNE]},
            "POST /v1/orders/by-estimate": {"estimate_id": await self.api.estimate()},
            "POST /v1/orders/by-mass": ONE_TONNE,
            "POST /v1/orders/by-value": {"value": "100.00"},
            "POST /v1/orders/{order_id}/refunds": {"amount": "1.00"},
            "POST /v1/orders/{order_id}/reduce": {"quantity": "0.75"},
            "POST /v1/orders/{order_id}/cancel": {"refund": True},
            "POST /v1/quotes": ONE_TONNE,
            "POST /v1/accounts": {"name": "Fjord Bakery", "currency": "EUR"},
            "POST /v1/accounts/client": {"name": "Fjord Bakery", "currency": "EUR"},
            "POST /v1/api-keys": {"name": "Web shop"},
            "POST /v1/api-keys/{api_key_id}/rotate": {"overlap_hours": 1},
            "POST /v1/checkouts": {
                "offset_link_id": self.ids["offset_link_id"],
                "email": "ann@example.com",
                "quantity": "1",
            },
            "POST /v1/offset-links": {"title": "Offset your flight"},
            "POST /v1/offset-links/{offset_link_id}/rotate-secret": {"overlap_s": 60},
            "POST /v1/sustainability-pages": PAGE,
            "POST /v1/webhooks": RECEIVER,
            "POST /v1/webhooks/{webhook_id}/rotate-secret": {"overlap_s": 60},
        }

    def path(self, route: Route) -> str:
        ids = self.ids | ({"order_id": self.ids["order_to_cancel"]} if route.path.endswith("/cancel") else {})
        return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], route.path)


def _without_key(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "idempotency_key"}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture
async def bodies(managing: ApiClient, services: Services) -> AsyncIterator[Bodies]:
    bodies = Bodies(managing, services)
    await bodies.prepare()
    yield bodies
    await services.webhooks.close()


async def test_every_post_creates_once_per_key_or_creates_nothing(bodies: Bodies, world: World) -> None:
    """All in one test: the bodies need the objects of others, and the message names every route that fails."""
    routes = [each for each in bodies.services.routes() if each.method == "POST" and each.path.startswith("/v1/")]
    of_routes, failures = await bodies.of_routes(), list[str]()
    assert {name_of(each) for each in routes} == {*of_routes, *CREATES_NOTHING}
    for route in routes:
        name = name_of(route)
        if name in CREATES_NOTHING:
            continue
        # Accounts are created in both modes, with a live key.
        api = bodies.api.as_key(world.ours_live.key) if name == "POST /v1/accounts" else bodies.api
        path, body = bodies.path(route), of_routes[name]
        first, repeated = [await api.post(path, body, Idempotency_Key=f"once {name}") for _ in range(2)]
        another = await api.post(path, body, Idempotency_Key=f"another {name}")
        # An account has one page, a key is rotated once, and an order is cancelled, or reduced to a quantity, once.
        creates_one = name in {
            "POST /v1/sustainability-pages",
            "POST /v1/api-keys/{api_key_id}/rotate",
            "POST /v1/orders/{order_id}/reduce",
            "POST /v1/orders/{order_id}/cancel",
        }
        replayed = repeated.headers.get("Idempotent-Replayed") == "true" or name in BATCHES
        if (first.status_code, repeated.status_code) not in {(201, 200), (200, 200)} or not replayed:
            failures.append(f"{name}: {first.status_code} {repeated.status_code} {replayed} {repeated.text[:200]}")
        elif _ids(first) != _ids(repeated) or "idempotency-mismatch" in repeated.headers:
            failures.append(f"{name}: another object, or a mismatch")
        elif (another.status_code > 201) is not creates_one or "idempotent-replayed" in another.headers:
            failures.append(f"{name}: not another object with another key: {another.text[:200]}")
        if route.creates is not None and repeated.content != first.content:
            failures.append(f"{name}: the response is not the first one")
    assert not failures, "\n".join(failures)


def _ids(answer: httpx.Response) -> list[str]:
    """All ids in a response, in order. A page has none."""
    return re.findall(r'"id":"([^"]+)"', answer.text)
