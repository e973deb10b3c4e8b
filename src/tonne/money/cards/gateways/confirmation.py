"""What a payer does at the gateway: confirm a charge of a stored card (3-D Secure), and enter another card."""

from typing import Protocol, runtime_checkable

from msgspec import Struct

from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult
from tonne.platform.values.context import Mode


class ConfirmationStart(Struct, frozen=True):
    """Where the payer confirms: `url` of the bank. None if there is nothing left to confirm: `result` says why."""

    url: str | None
    result: ChargeResult | None = None


class CardSetupRequest(Struct, frozen=True, kw_only=True):
    """A page on which the payer of an account enters a card. `customer` is None if the account has no card yet.

    `done_url` gets the payer after the card was stored, `back_url` if they give up.
    """

    account_id: str
    mode: Mode
    customer: str | None
    currency: str
    done_url: str
    back_url: str


class CardSetupPage(Struct, frozen=True):
    """`session_id` is the gateway's id of the page; record it before you redirect a person to `url`."""

    session_id: str
    url: str


class CardSetup(Struct, frozen=True):
    """The state of such a page. `customer` and `method` are set once a card was entered, `url` while it is open."""

    is_open: bool
    customer: str | None = None
    method: str | None = None
    url: str | None = None


class PayerPageFailed(Exception):
    """The gateway did not open or describe the page; the message says why. Nothing was charged or stored."""


@runtime_checkable
class PayerPages(Protocol):
    async def confirm(self, request: ChargeRequest, return_url: str) -> ConfirmationStart:
        """Ask the bank of the payer to confirm this same charge. It creates no other charge.

        Raises PayerPageFailed if the gateway cannot be reached.
        """

    async def open_card_setup(self, request: CardSetupRequest) -> CardSetupPage:
        """Raises PayerPageFailed."""

    async def look_up_card_setup(self, session_id: str, account_id: str) -> CardSetup:
        """Raises PayerPageFailed, also if the page belongs to another account."""
