"""Every route that changes something writes an audit entry, or is listed here with the reason why not."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from tests.channels.public_pages.scene import png
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

PAGE = {"status": "enabled", "slug": "ours", "title": "by_volume", "sections": ["certificates"]}
LINK = "/accounts/{account_id}/links/{offset_link_id}"
OF_MEMBERS = (
    "/overview/target",
    *("/keys", "/keys/{key_id}/rotate", "/keys/{key_id}/revoke"),
    *("/tax", "/invoices/{number}/replace"),
    *("/buy/order", "/accounts", "/accounts/{account_id}", "/accounts/{account_id}/payment"),
    *("/accounts/{account_id}/mix", "/accounts/{account_id}/close"),
    *("/accounts/{account_id}/archive", "/accounts/{account_id}/unarchive"),
    *("/public-page", "/links", LINK, f"{LINK}/enabled", f"{LINK}/secret"),
    *("/webhooks", "/webhooks/{webhook_id}", "/audit-packs", "/audit-packs/{pack_id}/delete"),
    *(f"/webhooks/{{webhook_id}}/{each}" for each in ("state", "rewind", "rotate", "skip", "delete")),
    *("/people", "/people/{user_id}/role", "/people/{user_id}/remove", "/invitations/{link_id}/revoke"),
)
CHANGES_NOTHING = {
    "/buy": "shows the form again",
    "/buy/quote": "changes nothing",
    "/public-page/preview": "changes nothing",
    "/accounts/{account_id}/card": "opens the page for a card; a card that is entered there is audited",
}
# They change nothing that is recorded: see the endpoints of the API with the same purpose.
OF_MEMBERS_NOT_AUDITED = ("/webhooks/{webhook_id}/test", "/webhooks/{webhook_id}/retry", "/certificates/download")
OF_OPERATORS = (
    *("/customers/new", "/customers/{organisation_id}/fee", "/customers/{organisation_id}/close"),
    *("/customers/{organisation_id}/reopen", "/customers/{organisation_id}/admins"),
    *("/customers/{organisation_id}/admins/remove", "/customers/{organisation_id}/accounts/{account_id}"),
    *("/customers/{organisation_id}/keys/{key_id}", "/mails/{mail_id}/retry", "/mails/{mail_id}/discard"),
    *(f"/money/invoices/{{number}}/{step}" for step in ("settle", "clear-settled", "resend", "credit", "replace")),
    *(f"/money/invoices/{{number}}/{step}" for step in ("write-off", "approve-write-off", "reinstate")),
    *("/money/inbox", "/money/doubtful/{line_id}", "/documents/deliveries/answer"),
    *("/customers/{organisation_id}/tax", "/customers/{organisation_id}/vat-check"),
    *("/money/payments", "/money/payments/{charge_id}/accept", "/money/payments/{charge_id}/return"),
    *("/persons/export", "/persons/erase"),
    *(f"/money/statements/{{upload_id}}/{action}" for action in ("import", "discard")),
    *(
        f"/money/transfers/{{transfer_id}}/{action}"
        for action in ("assign", "unassign", "payout", "return", "resolve", "reopen")
    ),
    "/money/returns/export",
    *("/books/chart", "/books/tax-rates", "/books/exchange-rates", "/books/settings/{name}/approve"),
    *(f"/month-end/{{month}}/{action}" for action in ("close", "reopen", "approve")),
    *(f"/money/disputes/{{dispute_id}}/{action}" for action in ("credit-tax", "keep-tax")),
    *(f"/money/returns/{{return_id}}/{action}" for action in ("approve", "redirect", "cancel", "returned", "failed")),
    *(f"/money/refunds/{{refund_id}}/{action}" for action in ("approve", "decline", "retry", "settle")),
)
OF_USERS = (
    *("sign-in", "code", "sign-out", "password/{token}", "invitations/{token}", "you/password"),
    *("you/second-factor/enable", "you/second-factor/codes", "you/second-factor/disable"),
    *("passkey", "code/passkey", "you/passkeys"),
    *(f"you/passkeys/{{passkey_id}}/{step}" for step in ("rename", "remove")),
    *("you/sessions/end", "you/sessions/{session_id}/end", "you/tokens", "you/tokens/{token_id}/revoke"),
)
BASES = tuple(
    base for mode in ("live", "test") for base in (f"/dashboard/{mode}/{{organisation_id}}", f"/operator/{mode}")
)
FORMS_OF_ORDERS = ("cancel", "reduce", "release", "refund", "mails", "name")
OF_ORDERS = {
    **dict.fromkeys(
        (f"POST {base}/orders/{{order_id}}/{form}" for base in BASES for form in FORMS_OF_ORDERS),
        "audited with the user as the actor: see test_orders.py in tests/workspace and tests/backoffice",
    ),
    **dict.fromkeys(
        (f"POST {base}/orders/{{order_id}}/test-helpers/{{step}}" for base in BASES),
        "a test helper, refused in live mode; the charge, the invoice and the events are the record",
    ),
}
# Changes of the operator: retirements, supply and the catalogue.
OF_SUPPLY_AUDITED = (
    *("/retirements/units/{unit_id}/close", "/imports/{import_id}/apply"),
    *(f"/supply/lots/{{lot_id}}/{step}" for step in ("withdraw", "invalidate", "resolve")),
    *(f"/registries/{step}" for step in ("accounts/{account_id}/check", "requests/{request_id}/retry")),
    *("/registries/differences/{drift_id}/settle", "/retirements/take"),
    *(f"/registries/requests/{{request_id}}/{step}" for step in ("settle", "approve")),
    *(f"/catalogue/bundles/{{bundle_id}}/{step}" for step in ("price", "switch", "cancel-price")),
    *("/catalogue/pictures", "/catalogue/pictures/remove"),
)
OF_SUPPLY_PREPARED = (
    *("/retirements/import", "/retirements/projects/{project_id}"),
    *("/imports/{import_id}/accept-rates", "/imports/{import_id}/discard"),
    *("/supply/import", "/supply/lots/{lot_id}/facts", "/supply/projects/{project_id}/facts"),
    "/catalogue/import",
)
OF_SUPPLY = {
    **dict.fromkeys(
        (f"POST /operator/{mode}{path}" for mode in ("live", "test") for path in OF_SUPPLY_AUDITED),
        "audited with the user as the actor: see tests/backoffice",
    ),
    **dict.fromkeys(
        (f"POST /operator/{mode}{path}" for mode in ("live", "test") for path in OF_SUPPLY_PREPARED),
        "changes nothing: the file is only kept for the preview; importing it is audited",
    ),
    "POST /operator/live/registries/statements": "audited as by the command: see "
    "tests/supply/registries/test_upload_statement.py",
    "POST /operator/test/registries/statements": "not found: the books of test mode are not compared",
}
NOT_AUDITED = {
    **OF_ORDERS,
    **OF_SUPPLY,
    "POST /verify": "changes nothing: it only reads a PDF",
    "POST /operator/live/customers/{organisation_id}/tax/preview": "changes nothing: it only shows a PDF",
    "POST /operator/test/customers/{organisation_id}/tax/preview": "changes nothing: it only shows a PDF",
    "POST /operator/live/month-end/{month}/compare": "changes nothing: it only reads a file",
    "POST /operator/test/month-end/{month}/compare": "changes nothing: it only reads a file",
    "POST /v1/orders/batch": "the orders are the record; their rows name the key",
    "POST /v1/orders/by-estimate": "the order is the record; its row names the key",
    "POST /v1/orders/by-mass": "the order is the record; its row names the key",
    "POST /v1/orders/by-value": "the order is the record; its row names the key",
    "POST /v1/orders/by-estimate/quote": "changes nothing",
    "POST /v1/orders/by-mass/quote": "changes nothing",
    "POST /v1/orders/by-value/quote": "changes nothing",
    "POST /v1/quotes": "the quote is the record; an order with it is one, too",
    "POST /v1/accounts": "needs a live key: audited in both modes, see tests/selling/accounts/test_manage_accounts.py",
    "POST /v1/estimates": "the estimate is the record and never changes",
    "POST /v1/estimates/batch": "the estimates are the record",
    "PATCH /v1/estimates/passenger-transportation/{passenger_transportation_estimate_id}/annotations": (
        "notes of the client about its own estimate, which change no amount"
    ),
    **{
        key: "every version of an estimate is a record and never changes; orders name the estimate"
        for kind in ("flight", "electricity", "passenger-transportation", "hotel", "emission-factor")
        for key in (
            f"POST /v1/estimates/{kind}",
            f"PUT /v1/estimates/{kind}/{{{kind.replace('-', '_')}_estimate_id}}",
        )
    },
    **{
        f"{route}{more}": "every version of an estimate is a record; annotations are the client's own notes"
        for route, more in (
            *(("POST /v1/estimates/shipping", ""), ("PUT /v1/estimates/shipping/{shipping_estimate_id}", "")),
            ("PATCH /v1/estimates/shipping/{shipping_estimate_id}", "/annotations"),
            ("POST /v1/estimates/shipping/multi-leg", ""),
            ("PUT /v1/estimates/shipping/multi-leg/{multi_leg_estimate_id}", ""),
            ("PATCH /v1/estimates/shipping/multi-leg/{multi_leg_estimate_id}", "/annotations"),
            *(("POST /v1/estimates/transactions", ""), ("POST /v1/estimates/transactions", "/batch")),
            ("PUT /v1/estimates/transactions/{transaction_estimate_id}", ""),
        )
    },
    "POST /v1/webhooks/{webhook_id}/test": "changes nothing: it sends one request to the organisation's own receiver",
    "POST /v1/webhooks/{webhook_id}/retry-now": "changes no setting; the attempt is in the list of attempts",
    "POST /v1/test-helpers/accounts/{account_id}/collect": "a test helper; invoices and charge are the record",
    "POST /v1/test-helpers/orders/{order_id}/pay": "a test helper; the charge is the record",
    "POST /v1/test-helpers/orders/{order_id}/decline": "a test helper; the charge is the record",
    "POST /v1/test-helpers/orders/{order_id}/complete": "a test helper; the events of the order are the record",
    "POST /v1/test-helpers/orders/{order_id}/retire": "a test helper; the events of the order are the record",
    "POST /v1/test-helpers/orders/{order_id}/dispute": "a test helper; the worker's check of the payment is audited",
    "POST /gateways/stripe/webhook": "makes a charge due; the worker then looks it up",
    "POST /offset/{link_id}": "begins a checkout, which is deleted if nothing is ordered",
    "POST /checkout/{token}/pay": "places an order, which is the record; it names the link",
    "POST /o/{token}/confirm": "sends the payer to the bank; the charge is the record",
    "POST /find-orders": "mails a buyer the links of their own orders; the mail is the record",
    **dict.fromkeys(("POST /o/{token}/bank", "POST /checkout/{token}/bank"), "the simulated bank; see the charge"),
    "POST /o/{token}/cancel": "no API key: audited, see tests/channels/checkout/test_cancel_by_customer.py",
    "POST /card/{token}": "no API key: writes card.stored of the payer, see tests/money/cards/test_card_page.py",
    **dict.fromkeys(
        (f"POST /dashboard/{mode}/{{organisation_id}}{path}" for mode in ("live", "test") for path in OF_MEMBERS),
        "audited with the user as the actor: see tests/apps/dashboard/test_audit.py",
    ),
    "POST /dashboard/test/{organisation_id}/documentation-key": "audited with the user as the actor: see "
    "tests/apps/workspace/test_documentation_key.py",
    **{
        f"POST /dashboard/{mode}/{{organisation_id}}{path}": reason
        for mode in ("live", "test")
        for path, reason in CHANGES_NOTHING.items()
    },
    **dict.fromkeys(
        (
            f"POST /dashboard/{mode}/{{organisation_id}}{path}"
            for mode in ("live", "test")
            for path in OF_MEMBERS_NOT_AUDITED
        ),
        "changes nothing",
    ),
    **dict.fromkeys(
        (f"POST /operator/{mode}{path}" for mode in ("live", "test") for path in OF_OPERATORS),
        "audited with the user as the actor: see tests/backoffice",
    ),
    **dict.fromkeys(
        (f"POST /dashboard/{path}" for path in OF_USERS),
        "audited with the user as the actor: see tests/apps/dashboard/test_audit.py and test_passkeys.py",
    ),
    **dict.fromkeys(
        (
            f"POST /operator/{mode}{path}"
            for mode in ("live", "test")
            for path in ("/customers/{organisation_id}/act-as", "/act-as/end")
        ),
        "audited with the operator as the actor: see tests/apps/backoffice/test_act_as.py",
    ),
    **dict.fromkeys((f"POST /operator/{mode}/persons" for mode in ("live", "test")), "changes nothing"),
    "POST /dashboard/password": "sends a mail, which is the record, if there is such a user",
    **dict.fromkeys(
        (f"POST /dashboard/{path}/options" for path in ("passkey", "code/passkey", "you/passkeys")),
        "issues a challenge for a passkey, which counts only once it is signed",
    ),
    "POST /dashboard/you/second-factor": "shows a secret, which counts only once it is confirmed",
    **dict.fromkeys(
        ("POST /v1/api-keys", "POST /v1/api-keys/{api_key_id}/rotate", "DELETE /v1/api-keys/{api_key_id}"),
        "audited, but needs a key with a permission: see tests/selling/accounts/test_key_endpoints.py",
    ),
    "POST /v1/persons/export": "audited, but needs a live key with a right: see tests/apps/privacy/test_endpoints.py",
    "POST /v1/persons/erase": "audited, but needs a live key with a right: see tests/apps/privacy/test_endpoints.py",
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

    async def change_waiting(self, action: str, body: dict[str, str]) -> None:
        order_id = str((await self.api.order(fulfil_after="manual"))["id"])
        await self.execute("UPDATE orders SET payment_method = 'card' WHERE id = $1", order_id)
        await self.send("POST", f"/v1/test-helpers/orders/{order_id}/pay", {})
        await self.send("POST", f"/v1/orders/{order_id}/{action}", body)

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

    async def client_account(self) -> None:
        await self.send("POST", "/v1/accounts/client", {"name": "Fjord Bakery", "currency": "EUR"})

    def _account(self, path: str) -> str:
        ours = self.world.ours_test
        ids = {"{account_id}": ours.scope.account_id, "client/{client_account_id}": f"client/{ours.client_account_id}"}
        return f"/v1/accounts/{ids[path]}"

    async def change_account(self, *, method: str, path: str) -> None:
        await self.send(method, self._account(path), {"name": f"Name by {method}"})

    async def change_logo(self, *, method: str, path: str) -> None:
        files = {"logo": ("logo.png", png())} if method == "POST" else None
        address = f"{self._account(path)}/logo"
        answer = await self.api.http.request(method, address, files=files, headers=self.api._headers({}))
        assert answer.status_code == 200, answer.text

    async def archive(self, *, step: str) -> None:
        await self.send("POST", f"/v1/accounts/client/{self.world.ours_test.client_account_id}/{step}", {})

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
    "POST /v1/accounts/client": lambda story: story.client_account(),
    **{
        f"{method} /v1/accounts/{path}": partial(Story.change_account, method=method, path=path)
        for path in ("{account_id}", "client/{client_account_id}")
        for method in ("PUT", "PATCH")
    },
    **{
        f"{method} /v1/accounts/{path}/logo": partial(Story.change_logo, method=method, path=path)
        for path in ("{account_id}", "client/{client_account_id}")
        for method in ("POST", "DELETE")
    },
    **{
        f"POST /v1/accounts/client/{{client_account_id}}/{step}": partial(Story.archive, step=step)
        for step in ("archive", "unarchive")
    },
    "POST /v1/sustainability-pages": lambda story: story.send("POST", "/v1/sustainability-pages", PAGE),
    "PUT /v1/sustainability-pages": lambda story: story.send(
        "PUT", "/v1/sustainability-pages", {**PAGE, "status": "disabled"}
    ),
    "PUT /v1/analytics/metadata-keys": lambda story: story.send("PUT", "/v1/analytics/metadata-keys", {"keys": ["a"]}),
    "PUT /v1/bundle-selections": lambda story: story.send(
        "PUT", "/v1/bundle-selections", [{"bundle_id": story.world.bundles_test["wind-power"]}]
    ),
    "PUT /v1/sustainability-page": lambda story: story.send("PUT", "/v1/sustainability-page", {"title": "Ours"}),
    "POST /v1/orders/{order_id}/cancel": lambda story: story.cancel("/v1"),
    "POST /v1/orders/{order_id}/reduce": lambda story: story.change_waiting("reduce", {"quantity": "0.5"}),
    "POST /v1/orders/{order_id}/release": lambda story: story.change_waiting("release", {}),
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
