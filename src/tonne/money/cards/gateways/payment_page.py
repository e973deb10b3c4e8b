"""Payment on the gateway's own page, so that card data never reaches Tonne."""

from datetime import datetime
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tonne.money.cards.gateways.card import ChargeRequest


class PageRequest(Struct, frozen=True, kw_only=True):
    """What the page shows and where it redirects. The page accepts no payment after `expires_at`."""

    charge: ChargeRequest
    email: str
    title: str
    paid_url: str
    back_url: str
    expires_at: datetime


class PaymentPage(Struct, frozen=True):
    """`session_id` is the gateway's id of the page; record it before you redirect a person to `url`."""

    session_id: str
    url: str


class PageNotOpened(Exception):
    """The gateway has no usable page for this charge; the message says why. Nothing was charged."""


@runtime_checkable
class PaymentPages(Protocol):
    async def open_page(self, request: PageRequest) -> PaymentPage:
        """Open the page of a charge, at most once per `charge.id`; a repeat returns the first page.

        Raises PageNotOpened if there is no page, or if it no longer accepts a payment.
        """
