"""The fake of Stripe's payment pages, checked against the types of the SDK and Stripe's documentation."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
import stripe

from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages, nested
from tests.money.cards.gateways.gateway_under_test import KEY
from tests.money.cards.gateways.page_requests import BACK_URL, PAID_URL, charge_on_page, gateway_at, page_request
from tests.money.cards.gateways.stripe_types import fields_of, misfits
from tests.support.clock import ManualClock
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.gateways.stripe_pages import session_params
from tonne.platform.values.context import utc_now


@pytest.fixture
async def pages() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as made:
        yield made


@pytest.fixture
async def gateway(pages: FakeStripePages) -> AsyncIterator[StripeCardGateway]:
    async with gateway_at(pages.url) as made:
        yield made


@pytest.fixture
async def sdk(pages: FakeStripePages) -> AsyncIterator[Any]:
    http = stripe.AIOHTTPClient()
    yield stripe.StripeClient(
        KEY, http_client=http, max_network_retries=0, base_addresses={"api": pages.url}
    ).v1.checkout.sessions
    await http.close_async()  # type: ignore[no-untyped-call]  # the SDK has no annotation


async def test_a_session_fits_the_sdks_types_in_every_state(
    pages: FakeStripePages, gateway: StripeCardGateway, sdk: Any
) -> None:
    ids = [(await gateway.open_page(page_request())).session_id for _ in range(4)]
    pages.pay(ids[1])
    pages.expire(ids[2])
    pages.decline(ids[3])
    statuses = []
    for session_id in ids:
        told = (await sdk.retrieve_async(session_id, {"expand": ["payment_intent.latest_charge"]})).to_dict()
        if told["payment_intent"] is not None and told["payment_intent"]["latest_charge"]:
            # Of the charge, only what is read.
            assert told["payment_intent"]["latest_charge"] == {"payment_method_details": {"card": {"country": "US"}}}
            assert "country" in fields_of(stripe.Charge.PaymentMethodDetails.Card)
            told["payment_intent"]["latest_charge"] = None
        assert misfits(told, stripe.checkout.Session, "Session") == []
        if told["payment_intent"] is not None:
            assert misfits(told["payment_intent"], stripe.PaymentIntent, "PaymentIntent") == []
        statuses.append((told["status"], told["payment_status"], bool(told["url"])))
    assert statuses == [
        ("open", "unpaid", True),
        ("complete", "paid", False),
        ("expired", "unpaid", False),
        ("open", "unpaid", True),
    ]
    for event in pages.events:
        assert set(json.loads(event)) <= set(stripe.Event.__annotations__)


async def test_refunds_and_payment_intents_fit_the_sdks_types(
    pages: FakeStripePages, gateway: StripeCardGateway
) -> None:
    page = await gateway.open_page(page_request())
    pages.pay(page.session_id)
    [intent] = pages.intents.values()
    await gateway.refund("rfd_1", intent["id"], 1999, "EUR")
    assert misfits(pages.refunds[0], stripe.Refund, "Refund") == []
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(f"{pages.url}/v1/payment_intents/{intent['id']}") as told,
    ):
        assert misfits(await told.json(), stripe.PaymentIntent, "PaymentIntent") == []


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "green"},
        {"status": "done"},
        {"amount_total": "1999"},
        {"livemode": 1},
        {"payment_method_types": "card"},
    ],
)
async def test_a_wrong_type_is_detected(
    pages: FakeStripePages, gateway: StripeCardGateway, change: dict[str, Any]
) -> None:
    session = pages.sessions[(await gateway.open_page(page_request())).session_id]
    [fault] = misfits(session | change, stripe.checkout.Session)
    assert fault.startswith(f".{next(iter(change))}:")
    assert misfits({name: value for name, value in session.items() if name != "created"}, stripe.checkout.Session)


async def test_an_idempotency_key_repeats_its_response_and_refuses_other_parameters(
    pages: FakeStripePages, sdk: Any
) -> None:
    params = session_params(page_request(charge_on_page(charge_id="chg_1")), 1999, utc_now())
    options = {"idempotency_key": "chg_1"}
    first = await sdk.create_async(params, options)
    pages.pay(first.id)
    again = await sdk.create_async(params, options)
    assert again.to_dict() == first.to_dict(), "as it was then, though it is paid now"
    assert "Idempotent-Replayed" in again.last_response.headers
    with pytest.raises(stripe.IdempotencyError, match="same parameters they were first used with"):
        await sdk.create_async({**params, "customer_email": "eve@example.com"}, options)
    assert len(pages.sessions) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "green"}, "unknown parameter"),
        ({"payment_method_types": ["card"]}, "unknown parameter"),
        ({"adaptive_pricing": {"on": True}}, "unknown parameter"),
        ({"customer_email": "nobody"}, "email"),
        ({"expires_at": timedelta(minutes=29)}, "30 minutes"),
        ({"expires_at": timedelta(hours=24, minutes=2)}, "24 hours"),
    ],
)
async def test_an_invalid_request_is_refused_and_does_not_use_up_its_key(
    sdk: Any, change: dict[str, Any], message: str
) -> None:
    params: dict[str, Any] = {**session_params(page_request(), 1999, utc_now())}
    # Relative to the time of the test, not of its collection.
    change = {
        name: int((utc_now() + value).timestamp()) if isinstance(value, timedelta) else value
        for name, value in change.items()
    }
    with pytest.raises(stripe.InvalidRequestError, match=message):
        await sdk.create_async({**params, **change}, {"idempotency_key": "k"})
    assert (await sdk.create_async(params, {"idempotency_key": "k"})).status == "open"


async def test_sessions_are_listed_newest_first_in_pages_and_since_a_moment() -> None:
    clock = ManualClock()
    async with fake_stripe_pages(clock) as pages, gateway_at(pages.url, clock=clock) as gateway:
        made = []
        for _ in range(5):
            made.append((await gateway.open_page(page_request())).session_id)
            clock.advance(hours=1)
        async with aiohttp.ClientSession() as client:

            async def told(query: str) -> dict[str, Any]:
                async with client.get(f"{pages.url}/v1/checkout/sessions?{query}") as answer:
                    body: dict[str, Any] = await answer.json()
                return body | {"data": [session["id"] for session in body["data"]]}

            newest = made[::-1]
            assert (await told("limit=2"))["data"] == newest[:2]
            rest = await told(f"limit=2&starting_after={newest[1]}")
            assert (rest["data"], rest["has_more"]) == (newest[2:4], True)
            last = await told(f"limit=2&starting_after={newest[3]}")
            assert (last["data"], last["has_more"]) == (newest[4:], False)
            since = int((clock() - timedelta(hours=2)).timestamp())
            assert (await told(f"created[gte]={since}"))["data"] == newest[:2]


async def test_a_payer_can_be_declined_go_back_return_and_pay_once(
    pages: FakeStripePages, gateway: StripeCardGateway
) -> None:
    asked = page_request()
    page = await gateway.open_page(asked)
    async with aiohttp.ClientSession() as browser:
        shown = await (await browser.get(page.url)).text()
        assert "One tonne &lt;for&gt; Ada &amp; others" in shown
        assert "19.99 EUR" in shown
        assert f'<a href="{BACK_URL}">Back</a>' in shown
        declined = await browser.post(page.url, data={"card": "declined"}, allow_redirects=False)
        assert "declined" in await declined.text()
        assert pages.taken(asked.charge.id) == []
        paid = await browser.post(page.url, data={"card": "good"}, allow_redirects=False)
        assert (paid.status, paid.headers["Location"]) == (303, PAID_URL)
        again = await browser.post(page.url, data={"card": "good"}, allow_redirects=False)
        assert "all done" in await again.text()
    assert pages.taken(asked.charge.id) == [1999]


async def test_an_expired_page_accepts_no_payment() -> None:
    clock = ManualClock()
    async with fake_stripe_pages(clock) as pages, gateway_at(pages.url, clock=clock) as gateway:
        asked = page_request(expires_at=clock() + timedelta(minutes=40))
        page = await gateway.open_page(asked)
        clock.advance(minutes=40)
        async with aiohttp.ClientSession() as browser:
            late = await browser.post(page.url, data={"card": "good"}, allow_redirects=False)
            assert "expired" in await late.text()
        assert pages.taken(asked.charge.id) == []
        assert [json.loads(event)["type"] for event in pages.events] == ["checkout.session.expired"]


def test_a_form_is_parsed_as_stripe_does() -> None:
    assert nested("a=1&b[c]=2&b[d][0]=3&b[d][1][e]=4") == {"a": "1", "b": {"c": "2", "d": ["3", {"e": "4"}]}}
