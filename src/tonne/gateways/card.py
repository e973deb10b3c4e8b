"""Cards: what a gateway is asked and what it answers. What a gateway or the network does is an answer, not an error."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tonne.base.scope import Mode


class ChargeOutcome(StrEnum):
    CAPTURED = "captured"
    # Soft: the same card may work later, for example when there is money on it again.
    DECLINED = "declined"
    # Hard: this card will never work for this charge: stolen, expired, unknown to the gateway.
    REFUSED = "refused"
    AUTHENTICATION_REQUIRED = "authentication_required"
    # The request went out and nobody knows what came of it. Ask with `look_up`; do not charge under another id.
    UNKNOWN = "unknown"
    # Surely not charged: the gateway was not reached, or turned us away before it did anything.
    UNAVAILABLE = "unavailable"
    # Only from `look_up`: the gateway has no such charge, so far.
    NOT_FOUND = "not_found"


class RefundOutcome(StrEnum):
    REFUNDED = "refunded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Card:
    """The card of an account, under the names by which the gateway knows it. Never a real card number."""

    customer: str
    method: str


@dataclass(frozen=True, slots=True)
class StoredCard:
    """A card as the gateway describes it. `expires` is the last month in which it works: `2031-04`."""

    customer: str
    method: str
    brand: str
    last_four: str
    expires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeRequest:
    """One attempt to charge. A second attempt after a decline needs an id of its own: an id names one outcome."""

    id: str
    order_id: str
    account_id: str
    mode: Mode
    amount_minor: int
    currency: str
    card: Card
    description: str


@dataclass(frozen=True, slots=True)
class Charged:
    """Amount and currency are what the gateway says, for the caller to hold against what it asked for."""

    kind: ChargeOutcome
    reference: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refunded:
    kind: RefundOutcome
    reference: str | None = None
    message: str | None = None


class CardNotFound(Exception):
    """The gateway knows no such card, or not as this customer's; the message says which."""


class CardNotDescribed(Exception):
    """The gateway could not be asked about a card now; the message says why."""


class CardGateway(Protocol):
    async def charge(self, request: ChargeRequest) -> Charged:
        """Take the money, at most once per `request.id`. Repeating an id returns what came of it the first time."""

    async def look_up(self, request: ChargeRequest) -> Charged:
        """Ask what came of a charge; never charges.

        `unknown` when the gateway cannot be asked, never `unavailable`: that would read as "surely not charged".
        `not_found` holds for now: a request that is still on its way can arrive later. Charging again under the same id
        is safe then, under another id it is not.
        """

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> Refunded:
        """Give money back from the charge `reference`, once per `refund_id`. After `unknown`, repeat that id."""

    async def describe(self, card: Card) -> StoredCard:
        """Raises CardNotFound, or CardNotDescribed when the gateway cannot be asked."""

    async def close(self) -> None: ...
