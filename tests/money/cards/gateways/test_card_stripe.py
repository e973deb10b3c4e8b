"""Requests to Stripe and the meaning of its responses, where localstripe is not detailed enough."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.money.cards.gateways.fake_stripe import (
    FakeStripe,
    error_response,
    fake_stripe,
    intent,
    page,
    refund,
    respond,
)
from tests.money.cards.gateways.gateway_under_test import KEY, StripeUnderTest, request, stripe_under_test
from tonne.money.cards.gateways.card import CardNotFound, ChargeOutcome, ChargeResult, RefundOutcome, StoredCard
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.gateways.stripe_responses import (
    ErrorObject,
    from_stripe_amount,
    outcome_of_error,
    to_stripe_amount,
)
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode, replace

CARD = StoredCard("cus_1", "pm_1")


@pytest.fixture
async def server() -> AsyncIterator[FakeStripe]:
    async with fake_stripe() as made:
        yield made


@pytest.fixture
async def gateway(server: FakeStripe) -> AsyncIterator[StripeCardGateway]:
    made = StripeCardGateway(KEY, server.url)
    yield made
    await made.close()


@pytest.fixture
async def subject(localstripe_url: str) -> AsyncIterator[StripeUnderTest]:
    async with stripe_under_test(localstripe_url) as made:
        yield made


async def test_a_charge_requests_one_off_session_card_payment_under_its_id(
    server: FakeStripe, gateway: StripeCardGateway
) -> None:
    server.respond_with(respond(200, intent()))
    await gateway.charge(request(CARD, 1999, "EUR", "chg_1"))
    (asked,) = server.requests
    assert (asked.method, asked.path) == ("POST", "/v1/payment_intents")
    assert asked.fields == {
        "amount": "1999",
        "currency": "eur",
        "customer": "cus_1",
        "payment_method": "pm_1",
        "allowed_payment_method_types[0]": "card",
        "capture_method": "automatic",
        "confirm": "true",
        "off_session": "true",
        "description": "Order ord_1",
        "metadata[charge_id]": "chg_1",
        "metadata[order_id]": "ord_1",
        "metadata[account_id]": "acc_1",
    }
    assert asked.headers["Idempotency-Key"] == "chg_1"


async def test_no_telemetry_is_sent(server: FakeStripe, gateway: StripeCardGateway) -> None:
    server.respond_with(respond(200, intent()))
    for _ in range(2):
        await gateway.charge(request(CARD))
    for asked in server.requests:
        assert "telemetry" not in repr(asked.headers).lower()
        assert "platform" not in asked.headers["X-Stripe-Client-User-Agent"]


FAILED: dict[str, Any] = {"status": "requires_payment_method", "amount_received": 0}


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        ({"status": "succeeded"}, "captured", None),
        ({"status": "requires_action"}, "authentication_required", "authentication_required"),
        ({"status": "canceled"}, "refused", "canceled"),
        ({**FAILED, "last_payment_error": {"code": "card_declined"}}, "declined", "card_declined"),
        (
            {**FAILED, "last_payment_error": {"code": "card_declined", "decline_code": "lost_card"}},
            "refused",
            "lost_card",
        ),
        (
            {**FAILED, "last_payment_error": {"code": "authentication_required"}},
            "authentication_required",
            "authentication_required",
        ),
        # Not final: it may still succeed after a request that timed out.
        (FAILED, "unknown", "requires_payment_method"),
        ({"status": "requires_confirmation"}, "unknown", "requires_confirmation"),
        ({"status": "requires_capture"}, "unknown", "requires_capture"),
        ({"status": "processing"}, "unknown", "processing"),
        ({"status": "a new one"}, "unknown", "a new one"),
    ],
)
async def test_the_status_of_a_payment_intent_decides(
    server: FakeStripe, gateway: StripeCardGateway, fields: dict[str, Any], kind: str, code: str | None
) -> None:
    asked = request(CARD)
    made = intent(metadata={"charge_id": asked.id}, **fields)
    server.respond_with(respond(200, made), page(made))
    for charged in (await gateway.charge(asked), await gateway.look_up(asked)):
        assert (charged.kind, charged.code, charged.reference) == (kind, code, "pi_1")
        assert (charged.amount_minor, charged.currency) == (1999, "EUR")


async def test_the_amount_is_the_received_amount(server: FakeStripe, gateway: StripeCardGateway) -> None:
    server.respond_with(respond(200, intent(amount_received=1000, currency="usd")))
    charged = await gateway.charge(request(CARD, 1999, "EUR"))
    assert (charged.kind, charged.amount_minor, charged.currency) == (ChargeOutcome.CAPTURED, 1000, "USD")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ({"code": "card_declined", "decline_code": "insufficient_funds"}, "declined", "insufficient_funds"),
        ({"code": "card_declined", "decline_code": "generic_decline"}, "declined", "generic_decline"),
        ({"code": "card_declined", "decline_code": "invented_tomorrow"}, "declined", "invented_tomorrow"),
        ({"code": "card_declined", "decline_code": "pickup_card"}, "refused", "pickup_card"),
        ({"code": "expired_card", "decline_code": "expired_card"}, "refused", "expired_card"),
        ({"code": "incorrect_number"}, "refused", "incorrect_number"),
        (
            {"code": "card_declined", "decline_code": "do_not_honor", "advice_code": "do_not_try_again"},
            "refused",
            "do_not_honor",
        ),
        ({"code": "authentication_required"}, "authentication_required", "authentication_required"),
        (
            {"code": "card_declined", "decline_code": "authentication_required"},
            "authentication_required",
            "authentication_required",
        ),
        ({}, "declined", None),
    ],
)
async def test_a_402_is_a_hard_or_soft_decline_or_requires_authentication(
    server: FakeStripe, gateway: StripeCardGateway, error: dict[str, str], kind: str, code: str | None
) -> None:
    """Off-session, Stripe responds with 402 where localstripe returns an intent that requires action."""
    made = intent(**FAILED, last_payment_error={"type": "card_error", **error})
    server.respond_with(
        error_response(402, type="card_error", message="Your card says no.", payment_intent=made, **error)
    )
    charged = await gateway.charge(request(CARD))
    assert charged == ChargeResult(ChargeOutcome(kind), "pi_1", code=code, message="Your card says no.")


def test_the_codes_of_simulated_cards_mean_the_same_at_stripe() -> None:
    for card in SIMULATED_CARDS:
        if card.recorded not in {None, ChargeOutcome.CAPTURED}:
            assert outcome_of_error(ErrorObject(decline_code=card.code)) is card.recorded


@pytest.mark.parametrize(
    ("amount_minor", "currency", "amount"),
    [
        (1999, "EUR", 1999),
        (500, "JPY", 500),
        (5, "ISK", 500),
        (5, "UGX", 500),
        (12_340, "KWD", 12_340),
        (12_345, "KWD", None),
        (12_341, "TND", None),
        (45_000, "MGA", 450),
        (45_050, "MGA", None),
        (0, "EUR", None),
        (-5, "EUR", None),
    ],
)
def test_some_currencies_have_other_decimals_at_stripe(amount_minor: int, currency: str, amount: int | None) -> None:
    assert to_stripe_amount(amount_minor, currency) == amount
    if amount is not None:
        assert from_stripe_amount(amount, currency) == amount_minor


@pytest.mark.parametrize("currency", sorted(DECIMALS))
def test_amounts_in_any_currency_are_converted_and_back(currency: str) -> None:
    amount_minor = int(f"1000{'0' * DECIMALS[currency]}")
    amount = to_stripe_amount(amount_minor, currency)
    assert amount is not None
    assert from_stripe_amount(amount, currency) == amount_minor


def test_a_fraction_of_our_unit_is_returned_as_none() -> None:
    assert from_stripe_amount(550, "ISK") is None


async def test_an_amount_that_stripe_does_not_support_is_refused_without_a_request(
    server: FakeStripe, gateway: StripeCardGateway
) -> None:
    charged = await gateway.charge(request(CARD, 12_345, "KWD"))
    assert (charged.kind, charged.code) == (ChargeOutcome.REFUSED, "amount_not_chargeable")
    assert "12.345 KWD" in (charged.message or "")
    refunded = await gateway.refund("rfd_1", "pi_1", 12_345, "KWD")
    assert refunded.kind is RefundOutcome.FAILED
    assert "12.345 KWD" in (refunded.message or "")
    assert server.requests == []


@pytest.mark.parametrize("prefix", ["sk_live_", "rk_live_"])
async def test_an_order_in_test_mode_never_takes_real_money(server: FakeStripe, prefix: str) -> None:
    server.respond_with(respond(200, intent()))
    gateway = StripeCardGateway(f"{prefix}123", server.url)
    charged = await gateway.charge(request(CARD))
    assert (charged.kind, charged.code) == (ChargeOutcome.REFUSED, "mode_mismatch")
    assert server.requests == []
    live = await gateway.charge(replace(request(CARD), mode=Mode.LIVE))
    assert live.kind is ChargeOutcome.CAPTURED
    await gateway.close()


async def test_a_charge_is_found_among_many_later_ones(subject: StripeUnderTest) -> None:
    card = await subject.card()
    asked = request(card)
    made = await subject.gateway.charge(asked)
    for _ in range(5):
        await asyncio.gather(*(subject.gateway.charge(request(card, 100)) for _ in range(21)))
    assert await subject.gateway.look_up(asked) == made
    assert (await subject.gateway.look_up(request(card))).kind is ChargeOutcome.NOT_FOUND


async def test_a_charge_of_an_unknown_customer_is_not_found(server: FakeStripe, gateway: StripeCardGateway) -> None:
    server.respond_with(
        error_response(400, type="invalid_request_error", code="resource_missing", param="customer", message="None.")
    )
    assert await gateway.look_up(request(CARD)) == ChargeResult(ChargeOutcome.NOT_FOUND)


async def test_a_refund_is_not_repeated_after_its_idempotency_key_expired(
    server: FakeStripe, gateway: StripeCardGateway
) -> None:
    earlier = refund(id="re_7", metadata={"refund_id": "rfd_1"})
    server.respond_with(page(refund(), url="/v1/refunds", has_more=True), page(earlier, url="/v1/refunds"))
    refunded = await gateway.refund("rfd_1", "pi_1", 1999, "EUR")
    assert (refunded.kind, refunded.reference) == (RefundOutcome.REFUNDED, "re_7")
    assert [asked.method for asked in server.requests] == ["GET", "GET"]
    assert server.requests[1].fields == {"payment_intent": "pi_1", "limit": "100", "starting_after": "re_1"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("succeeded", "refunded"),
        ("pending", "pending"),
        ("requires_action", "pending"),
        # The field may be null: then nothing is decided yet.
        (None, "pending"),
        ("failed", "failed"),
        ("canceled", "failed"),
    ],
)
async def test_a_refund_is_requested_under_its_id_and_its_status_decides(
    server: FakeStripe, gateway: StripeCardGateway, status: str | None, kind: str
) -> None:
    server.respond_with(page(url="/v1/refunds"), respond(200, refund(status=status)))
    refunded = await gateway.refund("rfd_1", "pi_1", 5, "ISK")
    assert (refunded.kind, refunded.reference) == (kind, "re_1")
    asked = server.requests[1]
    assert asked.fields == {"payment_intent": "pi_1", "amount": "500", "metadata[refund_id]": "rfd_1"}
    assert asked.headers["Idempotency-Key"] == "rfd_1"


@pytest.mark.parametrize(
    "error",
    [
        {
            "code": "resource_missing",
            "message": "No such payment_intent: 'pi_1'; a similar object exists in live mode, but a test mode key was "
            "used to make this request.",
        },
        {"code": "parameter_unknown", "message": "Received unknown parameter: limit"},
    ],
    ids=["key of the other mode", "request rejected"],
)
async def test_a_refund_that_could_not_be_searched_for_has_not_failed(
    server: FakeStripe, gateway: StripeCardGateway, error: dict[str, str]
) -> None:
    """An earlier request may have made it. A failure would cause another refund, under another id."""
    server.respond_with(error_response(404, type="invalid_request_error", **error))
    refunded = await gateway.refund("rfd_1", "pi_1", 1999, "EUR")
    assert refunded.kind is RefundOutcome.UNAVAILABLE
    assert [asked.method for asked in server.requests] == ["GET"]


async def test_a_charge_that_was_found_is_not_missing_because_its_refunds_are(
    server: FakeStripe, gateway: StripeCardGateway
) -> None:
    asked = request(CARD)
    server.respond_with(
        page(intent(metadata={"charge_id": asked.id})),
        error_response(404, type="invalid_request_error", code="resource_missing", message="No such payment_intent."),
    )
    assert (await gateway.look_up(asked)).kind is ChargeOutcome.UNKNOWN


async def test_a_card_of_another_customer_is_not_found(subject: StripeUnderTest) -> None:
    mine, theirs = await subject.card(), await subject.card()
    with pytest.raises(CardNotFound, match="does not belong to customer"):
        await subject.gateway.describe(StoredCard(mine.customer, theirs.method))
