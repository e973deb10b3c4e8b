"""A fake of Stripe's Checkout Sessions, which localstripe lacks, on a loopback port.

It follows Stripe's documentation: sessions are created under idempotency keys, retrieved and listed; a payer opens the
URL in a browser and pays or goes back; payments are refunded. `test_fake_stripe_pages.py` checks its responses against
the types of the SDK. Tests inspect what was captured, and inject faults.
"""

import html
import itertools
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import stripe
from aiohttp import web
from stripe.params import RefundCreateParams
from stripe.params.checkout import SessionCreateParams

from tests.money.cards.gateways.fake_stripe import ReceivedRequest, Responder
from tests.money.cards.gateways.stripe_types import fields_of, misfits
from tonne.money.cards.gateways.stripe_responses import from_stripe_amount
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Clock, utc_now

KINDS = {"/v1/checkout/sessions": SessionCreateParams, "/v1/refunds": RefundCreateParams}
SHORTEST_S, LONGEST_S = 30 * 60, 24 * 60 * 60
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Fault:
    """Replaces the response. `is_done`: the request is executed first."""

    act: Responder
    is_done: bool = False


class Refusal(Exception):
    def __init__(self, status: int, **error: Any) -> None:
        assert set(error) <= set(stripe.ErrorObject.__annotations__)
        super().__init__(error)
        self.answer = {"error": error}
        self.status = status


class FakeStripePages:
    """`faults` apply to the next requests, in order; None lets one request pass."""

    def __init__(self, clock: Clock = utc_now) -> None:
        self.url = ""
        self.clock = clock
        self.requests: list[ReceivedRequest] = []
        self.faults: deque[Fault | None] = deque()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.intents: dict[str, dict[str, Any]] = {}
        self.refunds: list[dict[str, Any]] = []
        # The events that Stripe would send to a webhook, in order.
        self.events: list[bytes] = []
        # Of the bank that issued the payer's card.
        self.card_country = "US"
        # Alters a session before it is returned, for false responses.
        self.retell: Callable[[dict[str, Any]], dict[str, Any]] = lambda session: session
        self._titles: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._kept: dict[str, tuple[dict[str, Any], bytes | None]] = {}

    def session_of(self, charge_id: str) -> dict[str, Any]:
        [session] = [each for each in self.sessions.values() if each["client_reference_id"] == charge_id]
        return self._current(session["id"])

    def pay(self, session_id: str) -> None:
        """The payer uses a good card: the payment is captured."""
        session = self._current(session_id)
        assert session["status"] == "open"
        intent = self._try(session)
        intent |= {"status": "succeeded", "amount_received": intent["amount"], "last_payment_error": None}
        session |= {"status": "complete", "payment_status": "paid", "url": None}
        self._tell("payment_intent.succeeded", intent)
        self._tell("checkout.session.completed", session)

    def decline(self, session_id: str) -> None:
        """The payer's card is declined: they can try another one."""
        error = {"type": "card_error", "code": "card_declined", "decline_code": "generic_decline"}
        self._try(self._current(session_id))["last_payment_error"] = {**error, "message": "Your card was declined."}

    def expire(self, session_id: str) -> None:
        session = self.sessions[session_id]
        session |= {"status": "expired", "url": None}
        if session["payment_intent"] is not None:
            self.intents[session["payment_intent"]]["status"] = "canceled"
        self._tell("checkout.session.expired", session)

    def taken(self, charge_id: str) -> list[int]:
        """The captured amounts of a charge, in Stripe's units."""
        return [
            intent["amount_received"]
            for intent in self.intents.values()
            if intent["metadata"]["charge_id"] == charge_id and intent["status"] == "succeeded"
        ]

    def given_back(self, reference: str) -> int:
        return sum(refund["amount"] for refund in self.refunds if refund["payment_intent"] == reference)

    def _try(self, session: dict[str, Any]) -> dict[str, Any]:
        """The payment intent, created by the first attempt to pay."""
        if session["payment_intent"] is None:
            made = _blank(stripe.PaymentIntent) | {
                "id": self._name("pi"),
                "object": "payment_intent",
                "amount": session["amount_total"],
                "amount_capturable": 0,
                "amount_received": 0,
                "capture_method": "automatic",
                "confirmation_method": "automatic",
                "created": self._now(),
                "currency": session["currency"],
                "livemode": session["livemode"],
                "metadata": dict(session["metadata"]),
                "payment_method_types": ["card"],
                "status": "requires_payment_method",
            }
            self.intents[made["id"]] = made
            session["payment_intent"] = made["id"]
        return self.intents[session["payment_intent"]]

    def _current(self, session_id: str) -> dict[str, Any]:
        session = self.sessions.get(session_id)
        if session is None:
            raise Refusal(
                404,
                type="invalid_request_error",
                code="resource_missing",
                message=f"No such checkout.session: {session_id}",
                param="session",
            )
        if session["status"] == "open" and self._now() >= session["expires_at"]:
            self.expire(session_id)
        return session

    def _tell(self, kind: str, about: dict[str, Any]) -> None:
        event = {"id": self._name("evt"), "object": "event", "type": kind, "livemode": about["livemode"]}
        event["data"] = {"object": about}
        self.events.append(json.dumps(event).encode())

    def _now(self) -> int:
        return int(self.clock().timestamp())

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    async def meet(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/v1/"):
            return await handler(request)
        text = await request.text() if request.method == "POST" else request.query_string
        self.requests.append(
            ReceivedRequest(request.method, request.path, dict(parse_qsl(text)), dict(request.headers))
        )
        fault = self.faults.popleft() if self.faults else None
        if fault is not None and not fault.is_done:
            return await fault.act(request)
        try:
            answer = await handler(request)
        except Refusal as refusal:
            answer = web.json_response(refusal.answer, status=refusal.status)
        return answer if fault is None else await fault.act(request)

    async def create(self, request: web.Request) -> web.Response:
        """One execution per idempotency key. The stored response does not change with the object."""
        fields = nested(await request.text())
        key = request.headers["Idempotency-Key"]
        first, answer = self._kept.setdefault(key, (fields, None))
        if first != fields:
            message = (
                "Keys for idempotent requests can only be used with the same parameters they were first used with. "
                f"Try using a key other than '{key}' if you meant to execute a different request."
            )
            raise Refusal(400, type="idempotency_error", message=message)
        if answer is not None:
            return web.Response(body=answer, content_type="application/json", headers={"Idempotent-Replayed": "true"})
        try:
            made = self._make(request.path, fields, livemode="k_live_" in request.headers["Authorization"])
        except Refusal:
            # Refused requests are not stored.
            del self._kept[key]
            raise
        answer = json.dumps(made).encode()
        self._kept[key] = (fields, answer)
        return web.Response(body=answer, content_type="application/json")

    def _make(self, path: str, fields: dict[str, Any], *, livemode: bool) -> dict[str, Any]:
        if faults := misfits(fields, KINDS[path], is_form=True):
            message = f"Received unknown parameter: {faults[0]}"
            raise Refusal(400, type="invalid_request_error", code="parameter_unknown", message=message)
        return self._make_session(fields, livemode=livemode) if "checkout" in path else self._make_refund(fields)

    def _make_session(self, fields: dict[str, Any], *, livemode: bool) -> dict[str, Any]:
        now, expires_at = self._now(), int(fields["expires_at"])
        if not now + SHORTEST_S <= expires_at < now + LONGEST_S:
            message = (
                "The `expires_at` timestamp must be between 30 minutes and 24 hours from Checkout Session creation."
            )
            raise Refusal(400, type="invalid_request_error", param="expires_at", message=message)
        if "@" not in fields["customer_email"]:
            message = f"Invalid email address: {fields['customer_email']}"
            raise Refusal(400, type="invalid_request_error", code="email_invalid", message=message)
        assert fields["mode"] == "payment"
        assert fields["metadata"] == fields["payment_intent_data"]["metadata"]
        [item] = fields["line_items"]
        amount = int(item["price_data"]["unit_amount"]) * int(item["quantity"])
        session_id = self._name("cs_test")
        self._titles[session_id] = item["price_data"]["product_data"]["name"]
        self.sessions[session_id] = _blank(stripe.checkout.Session) | {
            "id": session_id,
            "object": "checkout.session",
            "adaptive_pricing": {"enabled": fields["adaptive_pricing"]["enabled"] == "true"},
            "allowed_payment_method_types": fields["allowed_payment_method_types"],
            "amount_subtotal": amount,
            "amount_total": amount,
            "automatic_tax": _blank(stripe.checkout.Session.AutomaticTax) | {"enabled": False},
            "cancel_url": fields["cancel_url"],
            "client_reference_id": fields["client_reference_id"],
            "created": now,
            "currency": item["price_data"]["currency"],
            "custom_fields": [],
            "custom_text": _blank(stripe.checkout.Session.CustomText),
            "customer_email": fields["customer_email"],
            "expires_at": expires_at,
            "livemode": livemode,
            "metadata": fields["metadata"],
            "mode": "payment",
            "payment_method_types": ["card"],
            "payment_status": "unpaid",
            "shipping_options": [],
            "status": "open",
            "success_url": fields["success_url"],
            "ui_mode": "hosted_page",
            "url": f"{self.url}/pay/{session_id}",
        }
        return self.sessions[session_id]

    def _make_refund(self, fields: dict[str, Any]) -> dict[str, Any]:
        intent, amount = self.intents[fields["payment_intent"]], int(fields["amount"])
        if amount > intent["amount_received"] - self.given_back(intent["id"]):
            raise Refusal(400, type="invalid_request_error", param="amount", message="Greater than what is left.")
        made = _blank(stripe.Refund) | {
            "id": self._name("re"),
            "object": "refund",
            "amount": amount,
            "created": self._now(),
            "currency": intent["currency"],
            "metadata": fields["metadata"],
            "payment_intent": intent["id"],
            "status": "succeeded",
        }
        self.refunds.append(made)
        return made

    async def read_session(self, request: web.Request) -> web.Response:
        session = dict(self._current(request.match_info["id"]))
        if session["payment_intent"] is not None and request.query.get("expand[0]") == "payment_intent.latest_charge":
            intent = self.intents[session["payment_intent"]]
            charge = {"payment_method_details": {"card": {"country": self.card_country}}}
            session["payment_intent"] = intent | ({"latest_charge": charge} if intent["status"] == "succeeded" else {})
        return web.json_response(self.retell(session))

    async def list_sessions(self, request: web.Request) -> web.Response:
        since = int(request.query.get("created[gte]", "0"))
        found = [self._current(each) for each in reversed(self.sessions)]
        return _page(request, [session for session in found if session["created"] >= since])

    async def read_intent(self, request: web.Request) -> web.Response:
        return web.json_response(self.intents[request.match_info["id"]])

    async def list_refunds(self, request: web.Request) -> web.Response:
        intent = request.query["payment_intent"]
        return _page(request, [refund for refund in reversed(self.refunds) if refund["payment_intent"] == intent])

    async def list_disputes(self, request: web.Request) -> web.Response:
        """None: nobody disputes a payment here."""
        return _page(request, [])

    async def show(self, request: web.Request) -> web.Response:
        """The page in the browser: Pay, Try a declined card, Back."""
        return self._shown(self._current(request.match_info["id"]))

    async def submit(self, request: web.Request) -> web.Response:
        session = self._current(request.match_info["id"])
        if session["status"] != "open":
            return self._shown(session)
        if (await request.post()).get("card") == "declined":
            self.decline(session["id"])
            return self._shown(session, "Your card was declined. Try another one.")
        self.pay(session["id"])
        raise web.HTTPSeeOther(session["success_url"])

    def _shown(self, session: dict[str, Any], notice: str = "") -> web.Response:
        currency = session["currency"].upper()
        amount = format_money(from_stripe_amount(session["amount_total"], currency) or 0, currency)
        title, back = html.escape(self._titles[session["id"]]), html.escape(session["cancel_url"])
        if session["status"] == "open":
            body = f"""<p>{html.escape(session["customer_email"])}</p><p>{amount} {currency}</p><p>{notice}</p>
                <form method="post"><button name="card" value="good">Pay</button>
                <button name="card" value="declined">Try a declined card</button></form><a href="{back}">Back</a>"""
        elif session["status"] == "complete":
            body = f"""<p>You are all done here.</p><a href="{html.escape(session["success_url"])}">Back</a>"""
        else:
            body = f"""<p>This page has expired.</p><a href="{back}">Back</a>"""
        page = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
            <meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"></head>
            <body><main><h1>{title}</h1>{body}</main></body></html>"""
        return web.Response(text=page, content_type="text/html")


@asynccontextmanager
async def fake_stripe_pages(clock: Clock = utc_now) -> AsyncIterator[FakeStripePages]:
    """Runs in the event loop of the test. Use its URL as `stripe_api_base`."""
    pages = FakeStripePages(clock)

    @web.middleware
    async def meet(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await pages.meet(request, handler)

    app = web.Application(middlewares=[meet])
    app.router.add_post("/v1/checkout/sessions", pages.create)
    app.router.add_get("/v1/checkout/sessions", pages.list_sessions)
    app.router.add_get("/v1/checkout/sessions/{id}", pages.read_session)
    app.router.add_get("/v1/payment_intents/{id}", pages.read_intent)
    app.router.add_post("/v1/refunds", pages.create)
    app.router.add_get("/v1/refunds", pages.list_refunds)
    app.router.add_get("/v1/disputes", pages.list_disputes)
    app.router.add_get("/pay/{id}", pages.show)
    app.router.add_post("/pay/{id}", pages.submit)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pages.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield pages
    finally:
        await runner.cleanup()


def nested(text: str) -> dict[str, Any]:
    """Parse a form as Stripe does: `a[b][0]=c` is `{"a": {"b": ["c"]}}`."""
    made: dict[str, Any] = {}
    for name, value in parse_qsl(text):
        path = re.findall(r"[^\[\]]+", name)
        place = made
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return {name: _with_lists(value) for name, value in made.items()}


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if all(key.isdigit() for key in value):
        return [_with_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _with_lists(item) for key, item in value.items()}


def _blank(kind: type) -> dict[str, Any]:
    """All fields of the object: Stripe returns null for missing values."""
    return dict.fromkeys(fields_of(kind))


def _page(request: web.Request, items: list[dict[str, Any]]) -> web.Response:
    after = request.query.get("starting_after")
    names = [item["id"] for item in items]
    start = 0 if after is None else names.index(after) + 1
    end = start + int(request.query.get("limit", "10"))
    made = {"object": "list", "data": items[start:end], "has_more": len(items) > end, "url": request.path}
    return web.json_response(made)
