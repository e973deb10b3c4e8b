"""Stripe's payment page: the request, finding the page again, and the result of the charge."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.money.cards.gateways.fake_stripe import error_response
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, Fault, fake_stripe_pages
from tests.money.cards.gateways.page_requests import (
    BACK_URL,
    PAID_URL,
    charge_on_page,
    gateway_at,
    page_request,
    with_session,
)
from tests.support.clock import ManualClock
from tonne.money.cards.gateways.card import (
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    HostedPage,
    PageNotOpened,
    PaymentPage,
    PaymentPages,
    RefundOutcome,
)
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.gateways.stripe_pages import MARGIN, MAX_PAGE_LIFE, MIN_PAGE_LIFE, Session, charge_result_of
from tonne.money.cards.gateways.stripe_responses import ErrorObject, PaymentIntentObject
from tonne.platform.values.context import Mode, replace


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def pages(clock: ManualClock) -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages(clock) as made:
        yield made


@pytest.fixture
async def gateway(pages: FakeStripePages, clock: ManualClock) -> AsyncIterator[StripeCardGateway]:
    async with gateway_at(pages.url, clock=clock) as made:
        yield made


async def _opened(gateway: StripeCardGateway, **amount: Any) -> tuple[ChargeRequest, PaymentPage]:
    charge = charge_on_page(**amount)
    page = await gateway.open_page(page_request(charge))
    return with_session(charge, page), page


async def test_a_page_requests_one_card_payment_of_the_exact_amount(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock
) -> None:
    expires_at = clock() + timedelta(minutes=45)
    page = await gateway.open_page(page_request(charge_on_page(charge_id="chg_1"), expires_at=expires_at))
    assert page == PaymentPage("cs_test_1", f"{pages.url}/pay/cs_test_1")
    assert isinstance(gateway, PaymentPages)
    [asked] = pages.requests
    about = {"charge_id": "chg_1", "order_id": "ord_1", "account_id": "acc_1"}
    assert asked.fields == {
        "mode": "payment",
        "allowed_payment_method_types[0]": "card",
        "line_items[0][price_data][currency]": "eur",
        "line_items[0][price_data][unit_amount]": "1999",
        "line_items[0][price_data][product_data][name]": "One tonne <for> Ada & others",
        "line_items[0][quantity]": "1",
        "adaptive_pricing[enabled]": "false",
        "customer_email": "ada@example.com",
        "client_reference_id": "chg_1",
        **{f"metadata[{name}]": value for name, value in about.items()},
        **{f"payment_intent_data[metadata][{name}]": value for name, value in about.items()},
        "payment_intent_data[capture_method]": "automatic",
        "payment_intent_data[description]": "Order ord_1",
        "success_url": PAID_URL,
        "cancel_url": BACK_URL,
        "expires_at": str(int(expires_at.timestamp())),
    }
    assert asked.headers["Idempotency-Key"] == "chg_1"


@pytest.mark.parametrize(
    ("asked_for", "given"),
    [
        (timedelta(0), MIN_PAGE_LIFE + MARGIN),
        (timedelta(days=-1), MIN_PAGE_LIFE + MARGIN),
        (timedelta(minutes=30), MIN_PAGE_LIFE + MARGIN),
        (timedelta(minutes=35), timedelta(minutes=35)),
        (timedelta(hours=23), timedelta(hours=23)),
        (timedelta(hours=24), MAX_PAGE_LIFE - MARGIN),
        (timedelta(days=9), MAX_PAGE_LIFE - MARGIN),
    ],
)
async def test_the_expiry_of_a_page_stays_within_the_limits_of_stripe(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock, asked_for: timedelta, given: timedelta
) -> None:
    page = await gateway.open_page(page_request(expires_at=clock() + asked_for))
    assert pages.sessions[page.session_id]["expires_at"] == int((clock() + given).timestamp())


async def test_a_long_title_is_truncated(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    await gateway.open_page(replace(page_request(), title="é" * 1000))
    assert pages.requests[0].fields["line_items[0][price_data][product_data][name]"] == "é" * 250


@pytest.mark.parametrize(
    ("amount_minor", "currency", "amount"), [(500, "JPY", 500), (5, "ISK", 500), (12_340, "KWD", 12_340)]
)
async def test_amounts_of_a_page_are_converted_and_back(
    pages: FakeStripePages, gateway: StripeCardGateway, amount_minor: int, currency: str, amount: int
) -> None:
    charge, page = await _opened(gateway, amount_minor=amount_minor, currency=currency)
    pages.pay(page.session_id)
    assert pages.taken(charge.id) == [amount]
    found = await gateway.look_up(charge)
    assert (found.kind, found.amount_minor, found.currency) == (ChargeOutcome.CAPTURED, amount_minor, currency)


async def test_an_amount_that_stripe_does_not_support_opens_no_page(
    pages: FakeStripePages, gateway: StripeCardGateway
) -> None:
    for amount_minor, currency in ((12_345, "KWD"), (0, "EUR"), (-1, "EUR")):
        with pytest.raises(PageNotOpened, match="Stripe cannot charge"):
            await gateway.open_page(page_request(charge_on_page(amount_minor, currency)))
    assert pages.requests == []


async def test_a_test_order_gets_no_live_page(pages: FakeStripePages, clock: ManualClock) -> None:
    gateway = StripeCardGateway("sk_live_123", pages.url, clock=clock)
    with pytest.raises(PageNotOpened, match="test order"):
        await gateway.open_page(page_request())
    assert pages.requests == []
    await gateway.open_page(page_request(replace(charge_on_page(), mode=Mode.LIVE)))
    await gateway.close()


async def test_a_repeat_with_another_expiry_and_url_finds_the_first_page(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock
) -> None:
    asked = page_request(expires_at=clock() + timedelta(hours=2))
    first = await gateway.open_page(asked)
    clock.advance(minutes=3)
    again = replace(asked, expires_at=clock() + timedelta(hours=2), back_url=f"{BACK_URL}?again=1")
    assert await gateway.open_page(again) == first
    assert await gateway.open_page(replace(again, charge=with_session(asked.charge, first))) == first
    assert await gateway.open_page(asked) == first, "the very same parameters"
    assert len(pages.sessions) == 1


async def test_a_page_is_found_among_hundreds_of_others(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock
) -> None:
    charge, page = await _opened(gateway)
    forgotten = replace(charge, source=HostedPage())
    for number in range(215):
        other = {"id": f"cs_other_{number}", "client_reference_id": f"chg_other_{number}"}
        pages.sessions[other["id"]] = pages.sessions[page.session_id] | other
    clock.advance(minutes=1)
    assert await gateway.open_page(page_request(forgotten, expires_at=clock() + timedelta(hours=3))) == page
    assert (await gateway.look_up(forgotten)).code == "page_open"
    pages.requests.clear()
    assert await gateway.look_up(charge_on_page()) == ChargeResult(ChargeOutcome.NOT_FOUND)
    assert [len(pages.requests), *(asked.fields.get("limit") for asked in pages.requests)] == [3, "100", "100", "100"]


async def test_many_windows_at_once_open_one_page(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    charge = charge_on_page()
    ways = [replace(page_request(charge), back_url=f"{BACK_URL}?window={window}") for window in range(8)]
    opened = await asyncio.gather(*(gateway.open_page(way) for way in ways))
    assert len(set(opened)) == 1
    assert len(pages.sessions) == 1


async def test_a_concurrent_request_finds_the_page_or_is_told_to_retry(
    pages: FakeStripePages, gateway: StripeCardGateway
) -> None:
    in_use = error_response(409, type="idempotency_error", code="idempotency_key_in_use", message="In use.")
    asked = page_request()
    pages.faults.append(Fault(in_use))
    with pytest.raises(PageNotOpened, match="Try again in a moment"):
        await gateway.open_page(asked)
    pages.faults.append(Fault(in_use, is_done=True))
    page = await gateway.open_page(asked)
    assert pages.session_of(asked.charge.id)["id"] == page.session_id


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(("end", "message"), [("pay", "has already been used"), ("expire", "has expired")])
async def test_a_used_or_expired_page_is_not_opened_again(
    pages: FakeStripePages, gateway: StripeCardGateway, is_named: bool, end: str, message: str
) -> None:
    """Stripe's stored response for the idempotency key still shows an open session."""
    asked = page_request()
    page = await gateway.open_page(asked)
    getattr(pages, end)(page.session_id)
    charge = with_session(asked.charge, page) if is_named else asked.charge
    for paid_url in (PAID_URL, f"{PAID_URL}&again=1"):
        with pytest.raises(PageNotOpened, match=message):
            await gateway.open_page(replace(asked, charge=charge, paid_url=paid_url))


async def test_a_page_unknown_to_stripe_is_not_opened(gateway: StripeCardGateway) -> None:
    with pytest.raises(PageNotOpened, match="No such"):
        await gateway.open_page(page_request(with_session(charge_on_page(), "cs_nobodyknows")))


async def test_the_page_of_another_charge_is_not_used(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    _, page = await _opened(gateway)
    stranger = with_session(charge_on_page(), page)
    with pytest.raises(PageNotOpened, match="another payment"):
        await gateway.open_page(page_request(stranger))
    pages.pay(page.session_id)
    found = await gateway.look_up(stranger)
    assert (found.kind, found.code) == (ChargeOutcome.UNKNOWN, "page_of_another_charge")


async def test_an_open_page_has_an_unknown_result(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    charge, page = await _opened(gateway)
    assert await gateway.look_up(charge) == ChargeResult(ChargeOutcome.UNKNOWN, code="page_open")
    pages.decline(page.session_id)
    assert await gateway.look_up(charge) == ChargeResult(ChargeOutcome.UNKNOWN, code="page_open"), (
        "another card may follow"
    )


async def test_a_paid_page_has_amount_and_reference(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    charge, page = await _opened(gateway)
    pages.pay(page.session_id)
    [intent] = pages.intents
    paid = ChargeResult(ChargeOutcome.CAPTURED, intent, 1999, "EUR", mode=Mode.TEST, card_country="US")
    assert await gateway.look_up(charge) == paid
    assert await gateway.look_up(replace(charge, source=HostedPage())) == paid, "also when its name was not kept"
    refunded = await gateway.refund("rfd_1", intent, 1999, "EUR")
    assert refunded.kind is RefundOutcome.REFUNDED
    assert pages.given_back(intent) == 1999
    assert await gateway.look_up(charge) == replace(paid, refunded_minor=1999)


async def test_an_expired_page_refuses_the_charge(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock
) -> None:
    charge, page = await _opened(gateway)
    tried, tried_page = await _opened(gateway)
    pages.decline(tried_page.session_id)
    clock.advance(hours=24)
    for each in (charge, tried):
        found = await gateway.look_up(each)
        assert (found.kind, found.code, found.amount_minor) == (ChargeOutcome.REFUSED, "page_expired", None)
        assert found.message == "The payment page expired before it was paid."
    assert pages.sessions[page.session_id]["status"] == "expired"


async def test_a_look_up_of_a_charge_without_a_page_opens_none(
    pages: FakeStripePages, gateway: StripeCardGateway
) -> None:
    await gateway.open_page(page_request())
    assert await gateway.look_up(charge_on_page()) == ChargeResult(ChargeOutcome.NOT_FOUND)
    assert len(pages.sessions) == 1


async def test_a_recorded_page_is_never_reported_as_not_found(gateway: StripeCardGateway) -> None:
    """It may have been paid: the secret key may belong to another Stripe account."""
    found = await gateway.look_up(with_session(charge_on_page(), "cs_nobodyknows"))
    assert (found.kind, found.code) == (ChargeOutcome.UNKNOWN, "resource_missing")


async def test_the_search_for_a_page_is_limited_to_recent_ones(
    pages: FakeStripePages, gateway: StripeCardGateway, clock: ManualClock
) -> None:
    charge = replace((await _opened(gateway))[0], source=HostedPage())
    clock.advance(hours=25, seconds=1)
    assert (await gateway.look_up(charge)).kind is ChargeOutcome.NOT_FOUND
    assert pages.requests[-1].fields["created[gte]"] == str(int((clock() - timedelta(hours=25)).timestamp()))


GOT = PaymentIntentObject("pi_1", "succeeded", 1999, "eur", False, 1999)
DONE = Session("cs_1", "paid", False, "complete", "chg_1", 1999, "eur", None, GOT)


def _with(**fields: Any) -> Session:
    return msgspec.structs.replace(DONE, **fields)


def _intent(**fields: Any) -> PaymentIntentObject:
    return msgspec.structs.replace(GOT, **fields)


UNPAID = {"payment_status": "unpaid"}
LOST = {"status": "requires_payment_method", "last_payment_error": ErrorObject("card_declined", "lost_card")}


@pytest.mark.parametrize(
    ("session", "kind", "amount_minor"),
    [
        (DONE, "captured", 1999),
        # Session and intent differ.
        (_with(amount_total=2000), "captured", None),
        (_with(amount_total=None), "captured", None),
        (_with(currency="usd"), "captured", None),
        (_with(currency=None), "captured", None),
        (_with(payment_intent=_intent(amount_received=1000)), "captured", None),
        (_with(payment_intent=_intent(currency="usd")), "captured", None),
        # Both have another amount: the caller compares it.
        (_with(amount_total=5, payment_intent=_intent(amount=5, amount_received=5)), "captured", 5),
        # Only one of them is paid.
        (_with(**UNPAID), "unknown", None),
        (_with(payment_status="no_payment_required"), "unknown", None),
        (_with(payment_status="something new"), "unknown", None),
        (_with(status="open"), "unknown", None),
        (_with(status="expired"), "unknown", None),
        (_with(status=None), "unknown", None),
        (_with(status="something new"), "unknown", None),
        (_with(payment_intent="pi_1"), "unknown", None),
        (_with(payment_intent=None), "unknown", None),
        (_with(payment_intent=_intent(status="processing", amount_received=0)), "unknown", None),
        (_with(payment_intent=_intent(status="requires_capture", amount_received=0)), "unknown", None),
        (_with(payment_intent=_intent(status="canceled")), "unknown", None),
        (_with(client_reference_id="chg_2"), "unknown", None),
        (_with(client_reference_id=None), "unknown", None),
        # Final without a payment.
        (_with(**UNPAID, status="expired", payment_intent=None), "refused", None),
        (_with(**UNPAID, status="expired", payment_intent=_intent(status="canceled")), "refused", None),
        (_with(**UNPAID, status="expired", payment_intent=GOT), "unknown", None),
        (_with(**UNPAID, status="expired", payment_intent=_intent(status="processing")), "unknown", None),
        (_with(**UNPAID, status="expired", payment_intent="pi_1"), "unknown", None),
        (_with(**UNPAID, payment_intent=_intent(status="processing")), "unknown", None),
        (_with(**UNPAID, payment_intent=_intent(status="requires_action")), "unknown", None),
        (_with(**UNPAID, payment_intent=_intent(status="canceled")), "refused", 1999),
        (_with(**UNPAID, payment_intent=_intent(status="requires_payment_method")), "unknown", None),
        (_with(**UNPAID, payment_intent=_intent(**LOST)), "refused", 1999),
    ],
)
def test_a_page_is_captured_only_if_session_and_intent_agree(
    session: Session, kind: str, amount_minor: int | None
) -> None:
    found = charge_result_of(session, "chg_1")
    assert (found.kind, found.amount_minor) == (kind, amount_minor)
    assert (found.reference == "pi_1") == (found.kind is ChargeOutcome.CAPTURED or amount_minor is not None)
