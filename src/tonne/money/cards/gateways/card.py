"""The interface of card gateways. Declines and network failures are results, not exceptions.

People pay, confirm a charge of a stored card (3-D Secure) and enter another card on the gateway's own page, so that
card data never reaches Tonne. Payments are read back from the gateway's record, also refunds and disputes that began
there.
"""

from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tonne.platform.values.context import Mode


class RefundOutcome(StrEnum):
    REFUNDED = "refunded"
    # Accepted by the gateway. The bank may still reject it.
    PENDING = "pending"
    # This refund will never be made. Another one needs a new id.
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"


class RefundResult(Struct, frozen=True):
    kind: RefundOutcome
    reference: str | None = None
    message: str | None = None


class DisputeState(StrEnum):
    OPENED = "opened"
    WON = "won"
    LOST = "lost"


class RecordedRefund(Struct, frozen=True, kw_only=True):
    """`refund_id` is our id, None if somebody refunded at the gateway. `kind` is refunded, pending or failed."""

    reference: str
    refund_id: str | None
    amount_minor: int
    kind: RefundOutcome
    message: str | None = None


class RecordedDispute(Struct, frozen=True, kw_only=True):
    """`withdrawn_minor` is what the gateway has taken back from the seller: nothing during an inquiry or once won."""

    reference: str
    state: DisputeState
    amount_minor: int
    withdrawn_minor: int
    reason: str
    opened_at: datetime
    evidence_due: datetime | None = None


class RecordedPayment(Struct, frozen=True, kw_only=True):
    reference: str
    captured_minor: int
    currency: str
    mode: Mode
    refunds: tuple[RecordedRefund, ...] = ()
    disputes: tuple[RecordedDispute, ...] = ()


class PaymentNotRead(Exception):
    """The gateway could not be reached or understood; the message says why."""


# The code of a charge whose gateway, key or payment belongs to the other mode than its order.
MODE_MISMATCH = "mode_mismatch"


class ChargeOutcome(StrEnum):
    CAPTURED = "captured"
    # Soft decline: the same card may work later, for example after a deposit.
    DECLINED = "declined"
    # Hard decline: this card will never work for this charge (stolen, expired, unknown to the gateway).
    REFUSED = "refused"
    AUTHENTICATION_REQUIRED = "authentication_required"
    # The request was sent and its result is not known. Use `look_up`; do not charge under another id.
    UNKNOWN = "unknown"
    # Certainly not charged: the gateway was not reached, or rejected the request before it did anything.
    UNAVAILABLE = "unavailable"
    # Only from `look_up`: the gateway has no such charge at present.
    NOT_FOUND = "not_found"
    # Not from a gateway: cancelled while it waited for a confirmation, because the payer has entered another card.
    REPLACED = "replaced"


class StoredCard(Struct, frozen=True):
    """A card that the gateway stores, identified by the gateway's ids. `method` is never a real card number."""

    customer: str
    method: str


class HostedPage(Struct, frozen=True):
    """The gateway's own payment page. `session_id` is None until the gateway's id of the page is recorded."""

    session_id: str | None = None


# What a charge is paid with. None: the account has no card, so the charge fails without a request.
PaymentSource = StoredCard | HostedPage | None


class CardDetails(Struct, frozen=True):
    """A stored card with what a person may see of it. `expires` is its last valid month: `2031-04`."""

    customer: str
    method: str
    brand: str
    last_four: str
    expires: str
    # The gateway's id of the card itself: the same for all methods that were made of it.
    fingerprint: str


class ChargeRequest(Struct, frozen=True, kw_only=True):
    """One attempt to charge, for an order or for an invoice of many orders.

    Retrying after a decline needs a new id: the gateway returns one result per id.
    """

    id: str
    order_id: str | None = None
    invoice_id: str | None = None
    # The number of the invoice.
    invoice_reference: str | None = None
    account_id: str
    mode: Mode
    amount_minor: int
    currency: str
    source: PaymentSource

    @property
    def card(self) -> StoredCard:
        """The stored card. Raises TypeError for any other source, which the gateway cannot charge by itself."""
        if not isinstance(self.source, StoredCard):
            raise TypeError(f"charge {self.id} has no stored card")
        return self.source

    @property
    def description(self) -> str:
        """Shown by the gateway next to the charge. It must not vary: it is part of the idempotent request."""
        return f"Order {self.order_id}" if self.order_id is not None else f"Invoice {self.invoice_reference}"


class ChargeResult(Struct, frozen=True):
    """`amount_minor`, `currency` and `mode` are the gateway's; the caller compares them with the request.

    `refunded_minor`, known after a look-up only, is what somebody has refunded at the gateway since.
    """

    kind: ChargeOutcome
    reference: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    code: str | None = None
    message: str | None = None
    mode: Mode | None = None
    refunded_minor: int = 0
    # Of the bank that issued the card, if the gateway says so: two capital letters.
    card_country: str | None = None


class CardNotFound(Exception):
    """The gateway has no such card, or it belongs to another customer; the message says which."""


class CardNotDescribed(Exception):
    """The gateway could not be reached; the message says why."""


class CardGateway(Protocol):
    async def charge(self, request: ChargeRequest) -> ChargeResult:
        """Charge a stored card at most once per `request.id`. Repeating an id returns its first result."""

    async def look_up(self, request: ChargeRequest) -> ChargeResult:
        """Find the result of a charge; never charges.

        Returns `unknown`, never `unavailable`, if the gateway cannot be reached: `unavailable` means "not charged".
        `not_found` is preliminary: a delayed request may still arrive. Charging again is safe under the same id only.
        """

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> RefundResult:
        """Refund from the charge `reference`, once per `refund_id`. After `unknown`, repeat with the same id.

        Repeating the id of a pending refund returns its current state.
        """

    async def read_payment(self, reference: str) -> RecordedPayment:
        """Everything on record about a captured charge. Raises PaymentNotRead."""

    async def list_changed(self, since: datetime) -> set[str]:
        """The references of all payments with a refund or dispute created since. Raises PaymentNotRead."""

    async def cancel(self, request: ChargeRequest) -> ChargeResult:
        """End a charge that waits for the payer's confirmation, so that it can no longer succeed.

        Returns `refused` once that is certain, or the result that the charge has meanwhile.
        """

    async def describe(self, card: StoredCard) -> CardDetails:
        """Raises CardNotFound, or CardNotDescribed if the gateway cannot be reached."""

    async def forget(self, card: StoredCard) -> None:
        """Remove a stored card, which can then not be charged again. Raises like `describe`."""

    async def close(self) -> None: ...


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
