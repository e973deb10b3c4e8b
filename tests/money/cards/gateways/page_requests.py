"""Requests for payment pages, and a gateway connected to a fake Stripe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from tests.money.cards.gateways.gateway_under_test import KEY, request
from tonne.money.cards.gateways.card import ChargeRequest, HostedPage, PageRequest, PaymentPage
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.platform.values.context import Clock, replace, utc_now

PAID_URL, BACK_URL = "https://shop.example/paid?of=1&more=%C3%A4", "https://shop.example/back"


@asynccontextmanager
async def gateway_at(url: str, *, clock: Clock = utc_now, key: str = KEY) -> AsyncIterator[StripeCardGateway]:
    gateway = StripeCardGateway(key, url, clock=clock)
    try:
        yield gateway
    finally:
        await gateway.close()


def charge_on_page(amount_minor: int = 1999, currency: str = "EUR", charge_id: str = "") -> ChargeRequest:
    return request(HostedPage(), amount_minor, currency, charge_id)


def page_request(charge: ChargeRequest | None = None, *, expires_at: datetime | None = None) -> PageRequest:
    return PageRequest(
        charge=charge or charge_on_page(),
        email="ada@example.com",
        title="One tonne <for> Ada & others",
        paid_url=PAID_URL,
        back_url=BACK_URL,
        expires_at=expires_at or utc_now() + timedelta(hours=1),
    )


def with_session(charge: ChargeRequest, page: PaymentPage | str) -> ChargeRequest:
    """The charge once its page is recorded."""
    return replace(charge, source=HostedPage(page if isinstance(page, str) else page.session_id))
