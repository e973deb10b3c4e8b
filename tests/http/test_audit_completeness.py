"""Every route that changes something writes an audit entry, or is listed here with the reason why not."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.app import Services

NOT_AUDITED = {
    "POST /v1/orders/by-estimate": "the order is the record; its row names the key",
    "POST /v1/orders/by-mass": "the order is the record; its row names the key",
    "POST /v1/orders/by-value": "the order is the record; its row names the key",
    "POST /v1/orders/by-estimate/quote": "changes nothing",
    "POST /v1/orders/by-mass/quote": "changes nothing",
    "POST /v1/orders/by-value/quote": "changes nothing",
    "POST /v1/estimates": "the estimate is the record and never changes",
    "POST /v1/webhooks/{webhook_id}/test": "changes nothing: it sends one request to the organisation's own receiver",
    "POST /v1/webhooks/{webhook_id}/retry-now": "changes no setting; the attempt is in the list of attempts",
    "POST /v1/test-helpers/orders/{order_id}/pay": "a test helper; the charge is the record",
    "POST /v1/test-helpers/orders/{order_id}/decline": "a test helper; the charge is the record",
    "POST /v1/test-helpers/orders/{order_id}/complete": "a test helper; the events of the order are the record",
    "POST /v1/test-helpers/orders/{order_id}/retire": "a test helper; the events of the order are the record",
    "POST /v1/test-helpers/orders/{order_id}/dispute": "a test helper; the worker's check of the payment is audited",
    "POST /gateways/stripe/webhook": "makes a charge due; the worker then looks it up",
    "POST /offset/{link_id}": "begins a checkout, which is deleted if nothing is ordered",
    "POST /checkout/{token}/pay": "places an order, which is the record; it names the link",
    "POST /o/{token}/confirm": "sends the payer to the bank; the charge is the record",
    "POST /o/{token}/bank": "the simulated bank; the charge is the record",
    "POST /card/{token}": "no API key: writes card.stored of the payer, see tests/cards/test_card_page.py",
}
# The beginnings of API keys and of the secrets of webhooks and links.
SECRETS = ("tonne_test_", "tonne_live_", "whsec_", "lsec_")
RECEIVER = "https://1.1.1.1/hook"


@dataclass
class Story:
    """The requests of this test, in the order of their table."""

    api: ApiClient
    services: Services
    world: World
    ids: dict[str, str] = field(default_factory=dict)

    async def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await self.api.http.request(method, path, json=body, headers=self.api._headers({}))
        assert answer.status_code < 300, answer.text
        return answer

    async def hook(self) -> str:
        if "webhook" not in self.ids:
            self.ids["webhook"] = (await self.send("POST", "/v1/webhooks", {"url": RECEIVER})).json()["id"]
        return f"/v1/webhooks/{self.ids['webhook']}"

    async def create_link(self) -> None:
        self.ids["link"] = (await self.send("POST", "/v1/offset-links", {"title": "One"})).json()["id"]

    async def skip(self) -> None:
        await self.api.order()
        event = (await self.send("GET", "/v1/events?limit=1")).json()["data"][0]
        hook = await self.hook()
        async with self.services.database.transaction() as tx:
            await tx.execute(
                "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, "
                "next_attempt_at) SELECT organisation_id, $1, account_id, position, 5, now(), now() FROM events "
                "WHERE id = $2",
                self.ids["webhook"],
                event["event_id"],
            )
        await self.send("POST", f"{hook}/skip", {"event_id": event["event_id"]})

    async def cancel(self, prefix: str) -> None:
        order = await self.api.order()
        await self.send("POST", f"{prefix}/orders/{order['id']}/cancel", {"reason": "Ordered twice"})

    async def rename(self) -> None:
        order = await self.api.order()
        await self.send("PUT", f"/v1/orders/{order['id']}/beneficiary", {"name": "Fjord Bakery AS"})

    async def refund(self) -> None:
        await self.execute("UPDATE accounts SET refunds_by_api = true")
        order_id = await self.pay_by_card()
        await self.send("POST", f"/v1/orders/{order_id}/refunds", {"amount": "1.00"})

    async def pay_by_card(self) -> str:
        order_id = str((await self.api.order())["id"])
        await self.execute("UPDATE orders SET payment_method = 'card' WHERE id = $1", order_id)
        await self.send("POST", f"/v1/test-helpers/orders/{order_id}/pay", {})
        return order_id

    async def execute(self, sql: str, *values: str) -> None:
        async with self.services.database.transaction() as tx:
            await tx.execute(sql, *values)

    async def settle(self) -> None:
        order = await self.api.order()
        await self.send("POST", f"/v1/test-helpers/orders/{order['id']}/settle-invoice", {})

    async def request_hook(self, method: str, action: str, body: Any) -> None:
        await self.send(method, await self.hook() + action, body)


AUDITED: dict[str, Callable[[Story], Awaitable[Any]]] = {
    "POST /v1/webhooks": lambda story: story.hook(),
    "PUT /v1/webhooks/{webhook_id}": lambda story: story.request_hook("PUT", "", {"enabled": False}),
    "POST /v1/webhooks/{webhook_id}/rotate-secret": lambda story: story.request_hook("POST", "/rotate-secret", {}),
    "PUT /v1/webhooks/{webhook_id}/rotate-secret": lambda story: story.request_hook("PUT", "/rotate-secret", {}),
    "POST /v1/webhooks/{webhook_id}/rewind": lambda story: story.request_hook(
        "POST", "/rewind", {"sequence": "2026-11-15T10:00:00.000Z"}
    ),
    "POST /v1/webhooks/{webhook_id}/skip": lambda story: story.skip(),
    "DELETE /v1/webhooks/{webhook_id}": lambda story: story.request_hook("DELETE", "", None),
    "POST /v1/offset-links": lambda story: story.create_link(),
    "PUT /v1/offset-links/{offset_link_id}": lambda story: story.send(
        "PUT", f"/v1/offset-links/{story.ids['link']}", {"title": "Two"}
    ),
    "POST /v1/offset-links/{offset_link_id}/rotate-secret": lambda story: story.send(
        "POST", f"/v1/offset-links/{story.ids['link']}/rotate-secret", {}
    ),
    "POST /v1/checkouts": lambda story: story.send(
        "POST",
        "/v1/checkouts",
        {"offset_link_id": story.ids["link"], "email": "ann@example.com", "quantity": "1"},
    ),
    "PUT /v1/sustainability-page": lambda story: story.send("PUT", "/v1/sustainability-page", {"title": "Ours"}),
    "POST /v1/orders/{order_id}/cancel": lambda story: story.cancel("/v1"),
    "PUT /v1/orders/{order_id}/beneficiary": lambda story: story.rename(),
    "POST /v1/orders/{order_id}/refunds": lambda story: story.refund(),
    "POST /v1/test-helpers/orders/{order_id}/cancel": lambda story: story.cancel("/v1/test-helpers"),
    "POST /v1/test-helpers/orders/{order_id}/settle-invoice": lambda story: story.settle(),
    "PUT /v1/test-helpers/supply": lambda story: story.send(
        "PUT", "/v1/test-helpers/supply", {"available_quantity": "5"}
    ),
}


def test_security_7_every_route_that_changes_something_is_audited_or_exempt(services: Services) -> None:
    changing = {f"{route.method} {route.path}" for route in services.routes() if route.method not in {"GET", "HEAD"}}
    remedy = "write an audit entry and add the route to AUDITED, or add it to NOT_AUDITED with the reason"
    assert changing - AUDITED.keys() - NOT_AUDITED.keys() == set(), remedy
    assert AUDITED.keys() | NOT_AUDITED.keys() == changing, "routes that no longer exist"
    assert AUDITED.keys().isdisjoint(NOT_AUDITED)


async def test_security_7_every_audited_route_writes_an_entry(api: ApiClient, services: Services, world: World) -> None:
    story = Story(api, services, world)
    for route, request in AUDITED.items():
        before = await _newest(services)
        await request(story)
        added = await _newest(services) - before
        assert added, f"{route} wrote no audit entry"
        assert {(actor, address) for _, actor, address in added} == {(f"key:{world.ours_test.key_id}", "127.0.0.1")}
    async with services.database.connection() as connection:
        log = await connection.fetchval("SELECT string_agg(audit_log::text, ' ') FROM audit_log")
    assert not any(prefix in log for prefix in SECRETS)
    await services.webhooks.close()


async def _newest(services: Services) -> set[tuple[str, str, str | None]]:
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT id, actor, address FROM audit_log")
    return {(row["id"], row["actor"], row["address"]) for row in rows}
