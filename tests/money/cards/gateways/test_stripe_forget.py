"""Detaching a stored card at Stripe, when its account is closed."""

from collections.abc import AsyncIterator

import pytest

from tests.money.cards.gateways.fake_stripe import (
    FakeStripe,
    Responder,
    error_response,
    fake_stripe,
    hang,
    reset,
    respond,
)
from tests.money.cards.gateways.gateway_under_test import KEY, request, stripe_under_test
from tonne.money.cards.gateways.card import CardNotDescribed, CardNotFound, ChargeOutcome, StoredCard
from tonne.money.cards.gateways.card_stripe import StripeCardGateway

CARD = StoredCard("cus_1", "pm_1")
# As Stripe words it; there is no code.
NOT_ATTACHED = "The payment method you provided is not attached to a customer so detachment is impossible."


@pytest.fixture
async def server() -> AsyncIterator[FakeStripe]:
    async with fake_stripe() as made:
        yield made


@pytest.fixture
async def gateway(server: FakeStripe) -> AsyncIterator[StripeCardGateway]:
    made = StripeCardGateway(KEY, server.url)
    yield made
    await made.close()


async def test_a_detached_card_is_no_longer_the_customers_and_other_cards_stay(localstripe_url: str) -> None:
    async with stripe_under_test(localstripe_url) as subject:
        card, other = await subject.card(), await subject.card()
        assert (await subject.gateway.charge(request(card))).kind is ChargeOutcome.CAPTURED
        await subject.gateway.forget(card)
        with pytest.raises(CardNotFound):
            await subject.gateway.describe(card)
        assert (await subject.gateway.describe(other)).method == other.method
        assert await subject.taken(card) == [1999], "what was paid stays"


async def test_detaching_is_one_request_that_names_the_card(server: FakeStripe, gateway: StripeCardGateway) -> None:
    server.respond_with(respond(200, {"id": "pm_1", "object": "payment_method", "customer": None}))
    await gateway.forget(CARD)
    assert [(asked.method, asked.path, asked.fields) for asked in server.requests] == [
        ("POST", "/v1/payment_methods/pm_1/detach", {})
    ]


@pytest.mark.parametrize(
    "answer",
    [
        error_response(400, type="invalid_request_error", message=NOT_ATTACHED),
        error_response(404, type="invalid_request_error", code="resource_missing", message="No such PaymentMethod."),
    ],
    ids=["detached before", "unknown"],
)
async def test_a_card_that_is_gone_already_is_not_found(
    server: FakeStripe, gateway: StripeCardGateway, answer: Responder
) -> None:
    server.respond_with(answer)
    with pytest.raises(CardNotFound):
        await gateway.forget(CARD)


@pytest.mark.parametrize(
    "answer",
    [
        error_response(500, type="api_error", message="Sorry."),
        error_response(401, type="invalid_request_error", message="Invalid API key."),
        error_response(429, type="invalid_request_error", message="Too many."),
        error_response(400, type="invalid_request_error", message="Something else is wrong."),
        hang,
        reset,
    ],
    ids=["500", "401", "429", "400", "no answer", "connection lost"],
)
async def test_without_a_clear_answer_the_card_counts_as_attached(
    server: FakeStripe, gateway: StripeCardGateway, answer: Responder
) -> None:
    """The job tries again later; a card that is detached by then is not found."""
    server.respond_with(answer)
    with pytest.raises(CardNotDescribed):
        await gateway.forget(CARD)
