"""Payment on a page of the gateway's own: card data never touches us. The charge is on record before the page opens."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from tonne.gateways.card import Card, ChargeRequest

# In the place of a card, for a charge that is paid on the gateway's page and whose page is not known yet. Once it is,
# its name at the gateway stands there: see `is_paid_on_page`.
PAGE_TO_COME = Card("", "page")
_PAGE_PREFIX = "cs_"


def is_paid_on_page(card: Card) -> bool:
    return card.method == PAGE_TO_COME.method or card.method.startswith(_PAGE_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """What the page shows and where it leads. `expires_at` is when it shall take no payment any more."""

    charge: ChargeRequest
    email: str
    title: str
    paid_url: str
    back_url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PaymentPage:
    """`reference` is the page's name at the gateway, to be stored as the charge's card method."""

    reference: str
    url: str


class PageNotOpened(Exception):
    """The gateway has no page for this charge now; the message says why. Nothing was charged."""


@runtime_checkable
class PaymentPages(Protocol):
    async def open_page(self, request: PageRequest) -> PaymentPage:
        """The page for a charge: made at most once per `charge.id`; a repeat finds the first one.

        Raises PageNotOpened when there is none, or when it is over.
        """
