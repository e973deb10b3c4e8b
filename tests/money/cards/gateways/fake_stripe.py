"""A fake Stripe for failures that localstripe cannot produce. Objects are checked against the types of the SDK."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import stripe
from aiohttp import web
from stripe.params import PaymentIntentCreateParams, PaymentMethodDetachParams, RefundCreateParams

from tonne.money.cards.gateways.card_stripe import TIMEOUT_S

Responder = Callable[[web.Request], Awaitable[web.StreamResponse]]
CREATE_PARAMS: dict[str, type] = {
    "/v1/payment_intents": PaymentIntentCreateParams,
    "/v1/refunds": RefundCreateParams,
    "/v1/payment_methods/pm_1/detach": PaymentMethodDetachParams,
}


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    fields: dict[str, str]
    headers: dict[str, str]


@dataclass
class FakeStripe:
    """Responds to each request with the next responder; the last one repeats."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    answers: deque[Responder] = field(default_factory=deque)

    def respond_with(self, *answers: Responder) -> None:
        self.answers = deque(answers)

    async def take(self, request: web.Request) -> web.StreamResponse:
        fields = dict(parse_qsl(await request.text() if request.method == "POST" else request.query_string))
        self.requests.append(ReceivedRequest(request.method, request.path, fields, dict(request.headers)))
        if request.method == "POST":
            known = CREATE_PARAMS[request.path].__annotations__
            assert {name.partition("[")[0] for name in fields} <= set(known)
        act = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        return await act(request)


@asynccontextmanager
async def fake_stripe() -> AsyncIterator[FakeStripe]:
    server = FakeStripe()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def respond(status: int, body: object) -> Responder:
    async def act(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return act


def respond_text(status: int, body: str) -> Responder:
    async def act(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, content_type="text/html")

    return act


def error_response(status: int, **error: Any) -> Responder:
    """Stripe's error object, with fields that the SDK knows."""
    assert set(error) <= set(stripe.ErrorObject.__annotations__)
    return respond(status, {"error": error})


def pass_time(seconds: float) -> None:
    """Advance the clock of the event loop: its time-outs expire without waiting, however slow the machine is."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


async def hang(_: web.Request) -> web.StreamResponse:
    """Never responds. The client, which has sent its request, gives up at once."""
    pass_time(TIMEOUT_S + 1)
    await asyncio.Event().wait()
    raise AssertionError


async def reset(request: web.Request) -> web.StreamResponse:
    """Close the connection after reading the request."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def break_off(request: web.Request) -> web.StreamResponse:
    """Close the connection in the middle of a response."""
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"id": "pi_1", "object": "payment_intent", "status": "succee')
    assert request.transport is not None
    request.transport.abort()
    return response


async def echo_key(request: web.Request) -> web.StreamResponse:
    """An error message that contains the secret key."""
    message = f"Invalid API Key provided: {request.headers['Authorization']}"
    return web.json_response({"error": {"type": "invalid_request_error", "message": message}}, status=400)


def intent(**fields: Any) -> dict[str, Any]:
    known = set(stripe.PaymentIntent.__annotations__)
    made = {
        "id": "pi_1",
        "object": "payment_intent",
        "status": "succeeded",
        "amount": 1999,
        "amount_received": 1999,
        "currency": "eur",
        "livemode": False,
        "metadata": {},
        "last_payment_error": None,
        **fields,
    }
    assert set(made) <= known
    assert made["last_payment_error"] is None or set(made["last_payment_error"]) <= set(
        stripe.PaymentIntent.LastPaymentError.__annotations__
    )
    return made


def refund(**fields: Any) -> dict[str, Any]:
    made = {"id": "re_1", "object": "refund", "status": "succeeded", "amount": 1999, "currency": "eur", "metadata": {}}
    made |= fields
    assert set(made) <= set(stripe.Refund.__annotations__)
    return made


def page(*items: dict[str, Any], url: str = "/v1/payment_intents", has_more: bool = False) -> Responder:
    made = {"object": "list", "data": list(items), "has_more": has_more, "url": url}
    assert set(made) == {"object", *stripe.ListObject.__annotations__}
    return respond(200, made)
