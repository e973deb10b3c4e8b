"""A fake of what localstripe lacks for stored cards: 3-D Secure by redirect, and Checkout Sessions in mode `setup`.

It follows Stripe's documentation. An off-session charge of a card that needs authentication fails with status 402 and
leaves its payment intent in `requires_payment_method`; confirming that intent with a `return_url` gives
`requires_action` with a redirect; the payer authenticates there, or fails to, and is sent back. A setup session stores
the card that the payer enters. Parameters are checked against the types of the SDK.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import stripe
from aiohttp import web
from stripe.params import PaymentIntentCancelParams, PaymentIntentConfirmParams, PaymentIntentCreateParams
from stripe.params.checkout import SessionCreateParams

from tests.money.cards.gateways.fake_stripe_pages import Refusal, nested
from tests.money.cards.gateways.stripe_types import fields_of, misfits

GOOD, NEEDS_AUTHENTICATION, DECLINED = "pm_good", "pm_3ds", "pm_declined"
CUSTOMER = "cus_1"


class FakeStripeCards:
    def __init__(self) -> None:
        self.url = ""
        self.intents: dict[str, dict[str, Any]] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        self.confirmed: list[str] = []
        self.cancelled: list[str] = []
        # The bank declines every charge for now.
        self.is_declining = False
        # What a payer enters on the page of a setup session.
        self.entered: str = GOOD
        self._numbers = itertools.count(1)
        self._kept: dict[str, tuple[int, dict[str, Any]]] = {}
        self._methods = {name: self._method(name) for name in (GOOD, NEEDS_AUTHENTICATION, DECLINED)}

    @property
    def captured(self) -> list[str]:
        return [name for name, intent in self.intents.items() if intent["status"] == "succeeded"]

    def _method(self, name: str) -> dict[str, Any]:
        card = {"brand": "visa", "last4": "4242", "exp_month": 12, "exp_year": 2049, "fingerprint": "fp_1"}
        return {
            "id": name,
            "object": "payment_method",
            "type": "card",
            "livemode": True,
            "customer": CUSTOMER,
            "card": card,
        }

    async def create_intent(self, request: web.Request) -> web.Response:
        fields = await _form(request, PaymentIntentCreateParams)
        key = request.headers["Idempotency-Key"]
        if key not in self._kept:
            self._kept[key] = self._create(fields)
        status, body = self._kept[key]
        return web.json_response(body, status=status)

    def _create(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = f"pi_{next(self._numbers)}"
        made = dict.fromkeys(fields_of(stripe.PaymentIntent)) | {
            "id": name,
            "object": "payment_intent",
            "amount": int(fields["amount"]),
            "currency": fields["currency"],
            "customer": fields["customer"],
            "livemode": True,
            "metadata": fields["metadata"],
            "payment_method": fields["payment_method"],
        }
        self.intents[name] = made
        if fields["payment_method"] == GOOD and not self.is_declining:
            self._capture(made)
            return 200, made
        code = "authentication_required" if fields["payment_method"] == NEEDS_AUTHENTICATION else "insufficient_funds"
        return 402, {"error": {**self._fail(made, code), "payment_intent": dict(made)}}

    def _capture(self, intent: dict[str, Any]) -> None:
        intent |= {"status": "succeeded", "amount_received": intent["amount"], "next_action": None}

    def _fail(self, intent: dict[str, Any], code: str) -> dict[str, Any]:
        declined = {"code": "card_declined", "decline_code": code}
        known = {"code": code} if code.startswith("payment_intent") else declined
        error = {"type": "card_error", "message": "The card was not charged.", **known}
        if code == "authentication_required":
            error["code"] = code
        intent |= {"status": "requires_payment_method", "last_payment_error": error, "next_action": None}
        return error

    async def list_intents(self, request: web.Request) -> web.Response:
        found = [each for each in reversed(self.intents.values()) if each["customer"] == request.query["customer"]]
        return web.json_response({"object": "list", "data": found, "has_more": False, "url": request.path})

    async def list_none(self, request: web.Request) -> web.Response:
        """There are no refunds and disputes: `fake_stripe_pages.py` refunds."""
        return web.json_response({"object": "list", "data": [], "has_more": False, "url": request.path})

    async def confirm_intent(self, request: web.Request) -> web.Response:
        fields = await _form(request, PaymentIntentConfirmParams)
        intent = self.intents[request.match_info["id"]]
        if intent["status"] not in {"requires_payment_method", "requires_confirmation"}:
            raise Refusal(
                400,
                type="invalid_request_error",
                code="payment_intent_unexpected_state",
                message=f"It has a status of {intent['status']}.",
            )
        self.confirmed.append(intent["id"])
        redirect = {"url": f"{self.url}/authenticate/{intent['id']}", "return_url": fields["return_url"]}
        intent |= {
            "status": "requires_action",
            "last_payment_error": None,
            "next_action": {"type": "redirect_to_url", "redirect_to_url": redirect},
        }
        return web.json_response(intent)

    async def cancel_intent(self, request: web.Request) -> web.Response:
        await _form(request, PaymentIntentCancelParams)
        intent = self.intents[request.match_info["id"]]
        if intent["status"] in {"succeeded", "canceled"}:
            raise Refusal(
                400,
                type="invalid_request_error",
                code="payment_intent_unexpected_state",
                message=f"You cannot cancel it: it has a status of {intent['status']}.",
            )
        self.cancelled.append(intent["id"])
        intent |= {"status": "canceled", "next_action": None}
        return web.json_response(intent)

    async def authenticate(self, request: web.Request) -> web.Response:
        """The bank's page: the payer completes or fails the authentication, and returns."""
        intent = self.intents[request.match_info["id"]]
        if intent["status"] != "requires_action":
            return web.Response(text="There is nothing to authenticate.", status=400)
        return_url = intent["next_action"]["redirect_to_url"]["return_url"]
        answer = request.query.get("answer")
        if answer == "complete":
            self._capture(intent)
        elif answer == "fail":
            self._fail(intent, "payment_intent_authentication_failure")
        elif answer == "no_money":
            self._fail(intent, "insufficient_funds")
        else:
            links = "".join(f'<p><a href="?answer={each}">{each.title()}</a></p>' for each in ("complete", "fail"))
            page = f"<!doctype html><html lang=en><title>Bank</title><link rel=icon href='data:,'><h1>Bank</h1>{links}"
            return web.Response(text=page, content_type="text/html")
        raise web.HTTPSeeOther(f"{return_url}&payment_intent={intent['id']}")

    async def create_session(self, request: web.Request) -> web.Response:
        fields = await _form(request, SessionCreateParams)
        assert fields["mode"] == "setup"
        assert ("customer" in fields) is ("customer_creation" not in fields)
        session_id = f"cs_{next(self._numbers)}"
        self.sessions[session_id] = dict.fromkeys(fields_of(stripe.checkout.Session)) | {
            "id": session_id,
            "object": "checkout.session",
            "client_reference_id": fields["client_reference_id"],
            "customer": fields.get("customer"),
            "livemode": True,
            "metadata": fields["metadata"],
            "mode": "setup",
            "payment_status": "no_payment_required",
            "status": "open",
            "success_url": fields["success_url"],
            "url": f"{self.url}/setup/{session_id}",
        }
        return web.json_response(self.sessions[session_id])

    async def read_session(self, request: web.Request) -> web.Response:
        assert request.query.get("expand[0]") == "setup_intent"
        return web.json_response(self.sessions[request.match_info["id"]])

    async def enter_card(self, request: web.Request) -> web.Response:
        """The page of a setup session: opening it enters the card."""
        session = self.sessions[request.match_info["id"]]
        self.complete_setup(session["id"])
        raise web.HTTPSeeOther(session["success_url"])

    def complete_setup(self, session_id: str) -> None:
        intent = {"id": f"seti_{next(self._numbers)}", "status": "succeeded", "payment_method": self.entered}
        self.sessions[session_id] |= {
            "status": "complete",
            "customer": self.sessions[session_id]["customer"] or CUSTOMER,
            "setup_intent": intent,
            "url": None,
        }

    async def read_method(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if name == "pm_unreadable":
            raise Refusal(500, type="api_error", message="Sorry.")
        if name not in self._methods:
            raise Refusal(404, type="invalid_request_error", code="resource_missing", message="No such PaymentMethod.")
        return web.json_response(self._methods[name])


async def _form(request: web.Request, kind: type) -> dict[str, Any]:
    fields = nested(await request.text())
    assert misfits(fields, kind, is_form=True) == []
    return fields


@web.middleware
async def _refusals(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except Refusal as refusal:
        return web.json_response(refusal.answer, status=refusal.status)
    return answer


@asynccontextmanager
async def fake_stripe_cards() -> AsyncIterator[FakeStripeCards]:
    """Runs in the event loop of the test. Use its URL as `stripe_api_base`."""
    fake = FakeStripeCards()
    app = web.Application(middlewares=[_refusals])
    app.router.add_post("/v1/payment_intents", fake.create_intent)
    app.router.add_get("/v1/payment_intents", fake.list_intents)
    app.router.add_get("/v1/refunds", fake.list_none)
    app.router.add_get("/v1/disputes", fake.list_none)
    app.router.add_post("/v1/payment_intents/{id}/confirm", fake.confirm_intent)
    app.router.add_post("/v1/payment_intents/{id}/cancel", fake.cancel_intent)
    app.router.add_post("/v1/checkout/sessions", fake.create_session)
    app.router.add_get("/v1/checkout/sessions/{id}", fake.read_session)
    app.router.add_get("/v1/payment_methods/{id}", fake.read_method)
    app.router.add_get("/authenticate/{id}", fake.authenticate)
    app.router.add_get("/setup/{id}", fake.enter_card)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()
