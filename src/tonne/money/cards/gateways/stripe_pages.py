"""Stripe Checkout Sessions: the parameters of a new one, and how to read an existing one. No I/O."""

from datetime import datetime, timedelta

import msgspec
from stripe.params.checkout import SessionCreateParams

from tonne.money.cards.gateways.card import (
    CardSetup,
    CardSetupPage,
    CardSetupRequest,
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    PageNotOpened,
    PageRequest,
    PayerPageFailed,
    PaymentPage,
)
from tonne.money.cards.gateways.stripe_responses import PaymentIntentObject, mode_of, result_of
from tonne.platform.values.context import replace

# Stripe's limits on the life of a page. The margin allows for clock skew and the duration of the request.
MIN_PAGE_LIFE = timedelta(minutes=30)
MAX_PAGE_LIFE = timedelta(hours=24)
MARGIN = timedelta(minutes=1)
# Stripe's limit on the length of a product name.
MAX_TITLE = 250


class Session(msgspec.Struct, frozen=True):
    """`payment_intent` is an id, or the object if it was expanded; None until somebody tries to pay."""

    id: str
    payment_status: str
    livemode: bool
    status: str | None = None
    client_reference_id: str | None = None
    amount_total: int | None = None
    currency: str | None = None
    url: str | None = None
    payment_intent: PaymentIntentObject | str | None = None


def metadata_of(charge: ChargeRequest) -> dict[str, str]:
    subject = (
        {"order_id": charge.order_id} if charge.order_id is not None else {"invoice": charge.invoice_reference or ""}
    )
    return {"charge_id": charge.id, **subject, "account_id": charge.account_id}


def session_params(request: PageRequest, amount: int, now: datetime) -> SessionCreateParams:
    """A single card payment of exactly `amount`: the page offers no other currency, discount or tax."""
    charge = request.charge
    metadata = metadata_of(charge)
    expires_at = max(request.expires_at, now + MIN_PAGE_LIFE + MARGIN)
    expires_at = min(expires_at, now + MAX_PAGE_LIFE - MARGIN)
    return {
        "mode": "payment",
        "allowed_payment_method_types": ["card"],
        "line_items": [
            {
                "price_data": {
                    "currency": charge.currency.lower(),
                    "unit_amount": amount,
                    "product_data": {"name": request.title[:MAX_TITLE]},
                },
                "quantity": 1,
            }
        ],
        # Without this, the Stripe account's setting may let payers switch the currency.
        "adaptive_pricing": {"enabled": False},
        "customer_email": request.email,
        "client_reference_id": charge.id,
        "metadata": metadata,
        "payment_intent_data": {
            "capture_method": "automatic",
            "description": charge.description,
            "metadata": metadata,
        },
        "success_url": request.paid_url,
        "cancel_url": request.back_url,
        "expires_at": int(expires_at.timestamp()),
    }


class SetupIntentObject(msgspec.Struct, frozen=True):
    id: str
    status: str
    payment_method: str | None = None


class SetupSession(msgspec.Struct, frozen=True):
    """A session in which a card is stored, with its expanded setup intent."""

    id: str
    livemode: bool
    mode: str
    status: str | None = None
    client_reference_id: str | None = None
    url: str | None = None
    customer: str | None = None
    setup_intent: SetupIntentObject | str | None = None


def setup_params(request: CardSetupRequest) -> SessionCreateParams:
    """A page that stores a card for charges without the payer's presence, and charges nothing."""
    metadata = {"account_id": request.account_id}
    params: SessionCreateParams = {
        "mode": "setup",
        "allowed_payment_method_types": ["card"],
        "currency": request.currency.lower(),
        "client_reference_id": request.account_id,
        "metadata": metadata,
        "setup_intent_data": {"metadata": metadata},
        "success_url": request.done_url,
        "cancel_url": request.back_url,
    }
    if request.customer is None:
        params["customer_creation"] = "always"
    else:
        params["customer"] = request.customer
    return params


def setup_page_of(session: SetupSession, request: CardSetupRequest) -> CardSetupPage:
    """Raises PayerPageFailed if the page is of the other mode, or cannot be used."""
    if mode_of(livemode=session.livemode) is not request.mode:
        raise PayerPageFailed(f"Stripe opened a page of its other mode for a {request.mode} account. Check the key.")
    if session.status != "open" or not session.url:
        raise PayerPageFailed("Stripe returned no URL for the page. Try again.")
    return CardSetupPage(session.id, session.url)


def card_setup_of(session: SetupSession, account_id: str) -> CardSetup:
    """The card that was entered. Raises PayerPageFailed if the session belongs to another account."""
    if session.mode != "setup" or session.client_reference_id != account_id:
        raise PayerPageFailed("The page belongs to another account.")
    intent = session.setup_intent if isinstance(session.setup_intent, SetupIntentObject) else None
    if session.status == "complete" and intent is not None and intent.status == "succeeded":
        return CardSetup(False, session.customer, intent.payment_method)
    is_open = session.status == "open"
    return CardSetup(is_open, url=session.url if is_open else None)


def page_of(session: Session, charge: ChargeRequest) -> PaymentPage:
    """The page of an open session. Raises PageNotOpened if it is of the other mode or no longer accepts a payment."""
    if session.client_reference_id != charge.id:
        raise PageNotOpened("The payment page belongs to another payment. Start the payment again.")
    if mode_of(livemode=session.livemode) is not charge.mode:
        raise PageNotOpened(f"Stripe opened a page of its other mode for a {charge.mode} order. Check the secret key.")
    if session.status == "complete":
        raise PageNotOpened("The payment page has already been used. Wait for the payment to be confirmed.")
    if session.status == "expired":
        raise PageNotOpened("The payment page has expired. Start the payment again.")
    if session.status != "open" or not session.url:
        raise PageNotOpened("Stripe returned no URL for the payment page. Try again.")
    return PaymentPage(session.id, session.url)


def charge_result_of(session: Session, charge_id: str) -> ChargeResult:
    """The result of a charge according to its session. Captured only if session and payment intent agree.

    If their amounts or modes differ, the result has none, so that the caller's comparison fails.
    """
    if session.client_reference_id != charge_id:
        return ChargeResult(ChargeOutcome.UNKNOWN, code="page_of_another_charge")
    intent = session.payment_intent if isinstance(session.payment_intent, PaymentIntentObject) else None
    if session.status == "complete" and intent is not None:
        result = result_of(intent)
        if result.kind is ChargeOutcome.CAPTURED and session.payment_status == "paid":
            if session.livemode is not intent.livemode:
                return replace(result, mode=None)
            return result if _amounts_agree(session, intent) else replace(result, amount_minor=None)
        # The session is complete and its payment failed later: the page accepts no other card.
        if result.kind in {ChargeOutcome.DECLINED, ChargeOutcome.REFUSED} and session.payment_status == "unpaid":
            return result
    if session.status == "expired" and session.payment_status == "unpaid" and not _may_have_money(session):
        message = "The payment page expired before it was paid."
        return ChargeResult(ChargeOutcome.REFUSED, code="page_expired", message=message)
    return ChargeResult(ChargeOutcome.UNKNOWN, code="page_open" if session.status == "open" else "page_unclear")


def _may_have_money(session: Session) -> bool:
    intent = session.payment_intent
    if isinstance(intent, PaymentIntentObject):
        return intent.status in {"succeeded", "processing", "requires_capture"}
    return intent is not None


def _amounts_agree(session: Session, intent: PaymentIntentObject) -> bool:
    received = intent.amount if intent.amount_received is None else intent.amount_received
    return (session.amount_total, session.currency) == (received, intent.currency)
