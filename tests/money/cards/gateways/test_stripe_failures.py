"""Failures of Stripe and of the network: `unavailable` if certainly not charged, otherwise `unknown`."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import structlog

from tests.money.cards.gateways.fake_stripe import (
    FakeStripe,
    Responder,
    break_off,
    echo_key,
    error_response,
    fake_stripe,
    hang,
    intent,
    reset,
    respond,
    respond_text,
)
from tests.money.cards.gateways.gateway_under_test import KEY, request
from tests.money.cards.gateways.page_requests import gateway_at
from tests.support.processes import free_port
from tests.support.receivers import never_accepting
from tonne.money.cards.gateways import card_stripe
from tonne.money.cards.gateways.card import CardNotDescribed, ChargeOutcome, RefundOutcome, StoredCard
from tonne.money.cards.gateways.card_stripe import StripeCardGateway

CARD = StoredCard("cus_1", "pm_1")
# Only for gateways that cannot be reached: a slow machine must not cause a time-out elsewhere.
CONNECT_TIMEOUT_S = 0.2
API = {"type": "api_error", "message": "Sorry, something went wrong on our end."}
INVALID = {
    "type": "invalid_request_error",
    "message": "Received unknown parameter: colour",
    "code": "parameter_unknown",
}
# Sent, with an unknown result.
OPEN = {
    "no answer in time": (hang, "gateway_timeout"),
    "the connection is lost": (reset, "gateway_connection_lost"),
    "the answer breaks off": (break_off, "gateway_connection_lost"),
    "500": (error_response(500, **API), "gateway_error"),
    "503": (error_response(503, **API), "gateway_error"),
    "502 from something in between": (respond_text(502, "<h1>Bad gateway</h1>"), "gateway_error"),
    "409 while the same key is in use": (
        error_response(409, type="idempotency_error", message="In use."),
        "gateway_error",
    ),
    "200 that is not JSON": (respond_text(200, "<h1>Welcome</h1>"), "gateway_error"),
    "200 that is no object": (respond(200, ["captured"]), "gateway_error"),
    "200 that is another object": (respond(200, {"object": "balance", "available": []}), "gateway_error"),
}
# Rejected before any effect.
SHUT = {
    "429": (
        error_response(429, type="invalid_request_error", message="Too many.", code="rate_limit"),
        "gateway_rate_limited",
    ),
    "401": (
        error_response(401, type="invalid_request_error", message="Invalid API Key provided"),
        "gateway_key_refused",
    ),
    "403": (error_response(403, type="invalid_request_error", message="Not permitted"), "gateway_key_refused"),
    "400 that is our own mistake": (error_response(400, **INVALID), "parameter_unknown"),
}


@pytest.fixture
async def server() -> AsyncIterator[FakeStripe]:
    async with fake_stripe() as made:
        yield made


@pytest.mark.parametrize("what", OPEN)
async def test_a_charge_without_a_response_is_unknown_and_not_sent_again(server: FakeStripe, what: str) -> None:
    act, code = OPEN[what]
    server.respond_with(act)
    async with gateway_at(server.url) as gateway:
        charged = await gateway.charge(request(CARD))
    assert (charged.kind, charged.code) == (ChargeOutcome.UNKNOWN, code)
    assert charged.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("what", SHUT)
async def test_a_rejected_charge_is_unavailable(server: FakeStripe, what: str) -> None:
    act, code = SHUT[what]
    server.respond_with(act)
    async with gateway_at(server.url) as gateway:
        charged = await gateway.charge(request(CARD))
    assert (charged.kind, charged.code) == (ChargeOutcome.UNAVAILABLE, code)
    assert len(server.requests) == 1


async def test_an_unreachable_gateway_is_unavailable(server: FakeStripe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_stripe, "CONNECT_TIMEOUT_S", CONNECT_TIMEOUT_S)
    server.respond_with(respond(200, intent()))
    with never_accepting() as silent:
        for url in (
            f"http://127.0.0.1:{free_port()}",  # refused
            server.url.replace("http://", "https://"),  # no TLS
            silent.removesuffix("/hook"),  # accepts the connection, but no TLS handshake
        ):
            async with gateway_at(url) as gateway:
                charged = await gateway.charge(request(CARD))
                assert (charged.kind, charged.code) == (ChargeOutcome.UNAVAILABLE, "gateway_unreachable")
                refunded = await gateway.refund("rfd_1", "pi_1", 1999, "EUR")
                assert refunded.kind is RefundOutcome.UNAVAILABLE
                # Says nothing about a charge that was sent before.
                assert (await gateway.look_up(request(CARD))).kind is ChargeOutcome.UNKNOWN
    assert server.requests == []


@pytest.mark.parametrize("what", OPEN | SHUT)
async def test_a_failed_look_up_leaves_the_charge_unknown(server: FakeStripe, what: str) -> None:
    act, code = (OPEN | SHUT)[what]
    server.respond_with(act)
    async with gateway_at(server.url) as gateway:
        charged = await gateway.look_up(request(CARD))
    assert (charged.kind, charged.code) == (ChargeOutcome.UNKNOWN, code)
    assert {asked.method for asked in server.requests} == {"GET"}


@pytest.mark.parametrize("what", OPEN)
async def test_a_refund_without_a_response_is_unknown(server: FakeStripe, what: str) -> None:
    act, _ = OPEN[what]
    server.respond_with(respond(200, {"object": "list", "data": [], "has_more": False, "url": "/v1/refunds"}), act)
    async with gateway_at(server.url) as gateway:
        refunded = await gateway.refund("rfd_1", "pi_1", 1999, "EUR")
    assert refunded.kind is RefundOutcome.UNKNOWN
    assert refunded.message
    assert [asked.method for asked in server.requests] == ["GET", "POST"]


@pytest.mark.parametrize("what", OPEN | SHUT)
async def test_a_card_that_cannot_be_looked_up_is_not_reported_as_missing(server: FakeStripe, what: str) -> None:
    act, _ = (OPEN | SHUT)[what]
    server.respond_with(act)
    async with gateway_at(server.url) as gateway:
        with pytest.raises(CardNotDescribed, match=r"Stripe|parameter"):
            await gateway.describe(CARD)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "amount_too_small", "param": "amount"},
        {"code": "amount_too_large"},
        {"code": "resource_missing", "param": "customer"},
        {"param": "payment_method"},
        {"param": "currency"},
    ],
)
async def test_an_invalid_request_that_is_about_the_charge_refuses_it(
    server: FakeStripe, error: dict[str, str]
) -> None:
    server.respond_with(error_response(400, type="invalid_request_error", message="Cannot be charged.", **error))
    async with gateway_at(server.url) as gateway:
        charged = await gateway.charge(request(CARD))
    assert (charged.kind, charged.message) == (ChargeOutcome.REFUSED, "Cannot be charged.")
    assert charged.code == error.get("code", "invalid_request")


async def test_a_gateway_recovers_from_failures(server: FakeStripe) -> None:
    server.respond_with(reset, error_response(500, **API), hang, respond(200, intent()))
    async with gateway_at(server.url) as gateway:
        kinds = [(await gateway.charge(request(CARD))).kind for _ in range(4)]
    assert kinds == ["unknown", "unknown", "unknown", "captured"]


async def test_a_refused_key_is_logged_as_an_error(server: FakeStripe) -> None:
    server.respond_with(SHUT["401"][0])
    with structlog.testing.capture_logs() as logs:
        async with gateway_at(server.url) as gateway:
            await gateway.charge(request(CARD, charge_id="chg_1"))
    assert [(line["log_level"], line["event"], line["charge_id"]) for line in logs] == [
        ("error", "stripe_request_failed", "chg_1")
    ]
    assert "TONNE_STRIPE_SECRET_KEY" in logs[0]["reason"]


Operation = Callable[[StripeCardGateway], Awaitable[object]]
OPERATIONS: dict[str, Operation] = {
    "charge": lambda gateway: gateway.charge(request(CARD)),
    "look_up": lambda gateway: gateway.look_up(request(CARD)),
    "refund": lambda gateway: gateway.refund("rfd_1", "pi_1", 1999, "EUR"),
    "describe": lambda gateway: gateway.describe(CARD),
}


LEAKS: dict[str, Responder] = {
    "400 that quotes it": echo_key,
    "402 that quotes it": error_response(402, type="card_error", message=f"Not with {KEY}."),
    "401": SHUT["401"][0],
    "403": SHUT["403"][0],
    "nonsense": respond_text(200, "no"),
    "nothing": reset,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("what", LEAKS)
async def test_the_secret_key_is_never_repeated(
    server: FakeStripe, operation: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond_with(LEAKS[what])
    said: list[object] = []
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as logs:
        async with gateway_at(server.url) as gateway:
            try:
                said.append(await OPERATIONS[operation](gateway))
            except CardNotDescribed as error:
                said += [error, error.__cause__]
            said += [repr(gateway), str(gateway)]
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr([said, logs, [record.getMessage() for record in caplog.records]])


@pytest.mark.parametrize("key", ["", "pk_test_123", "sk_test_1 23", "sk_test_123\n", "sk_test_é", "123"])
def test_an_invalid_key_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(ValueError, match="Stripe secret key") as refused:
        StripeCardGateway(key)
    assert not key or key.strip() not in str(refused.value)
