"""Stripe's own payment page: what a Checkout Session is asked to be, and what one says. No I/O."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
from stripe.params.checkout import SessionCreateParams

from tonne.gateways.card import Charged, ChargeOutcome
from tonne.gateways.payment_page import PageNotOpened, PageRequest, PaymentPage
from tonne.gateways.stripe_answers import Intent, charged_with

# How long Stripe lets a page live, and how far inside we stay: our clock is not Stripe's, and a request takes its time.
LIVES_AT_LEAST = timedelta(minutes=30)
LIVES_AT_MOST = timedelta(hours=24)
MARGIN = timedelta(minutes=1)
# What Stripe takes for the name of a product.
MAX_TITLE = 250


class Session(msgspec.Struct, frozen=True):
    """`payment_intent` is a name, or all of it when that was asked for; None until somebody has tried to pay."""

    id: str
    payment_status: str
    status: str | None = None
    client_reference_id: str | None = None
    amount_total: int | None = None
    currency: str | None = None
    url: str | None = None
    payment_intent: Intent | str | None = None


def session_params(request: PageRequest, amount: int, now: datetime) -> SessionCreateParams:
    """One payment by card of exactly `amount`: no other currency, no discount, no tax is added on the page."""
    charge = request.charge
    metadata = {"charge_id": charge.id, "order_id": charge.order_id, "account_id": charge.account_id}
    expires_at = max(request.expires_at, now + LIVES_AT_LEAST + MARGIN)
    expires_at = min(expires_at, now + LIVES_AT_MOST - MARGIN)
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
        # Otherwise the account's own setting decides whether Stripe offers to pay in another currency.
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


def opened(session: Session, charge_id: str) -> PaymentPage:
    """The page, if it can be paid on. Raises PageNotOpened."""
    if session.client_reference_id != charge_id:
        raise PageNotOpened("The payment page belongs to another payment: start again.")
    if session.status == "complete":
        raise PageNotOpened("The payment page has been used: wait for the payment to be confirmed.")
    if session.status == "expired":
        raise PageNotOpened("The payment page has run out: start the payment again.")
    if session.status != "open" or not session.url:
        raise PageNotOpened("Stripe gave no address for the payment page: try again.")
    return PaymentPage(session.id, session.url)


def paid_on(session: Session, charge_id: str) -> Charged:
    """What came of a charge, as its page says. Captured only when session and payment intent both say so.

    Where the two name different amounts there is none, which makes the caller's comparison fail, as it should.
    """
    if session.client_reference_id != charge_id:
        return Charged(ChargeOutcome.UNKNOWN, code="page_of_another_charge")
    intent = session.payment_intent if isinstance(session.payment_intent, Intent) else None
    if session.status == "complete" and intent is not None:
        answer = charged_with(intent)
        if answer.kind is ChargeOutcome.CAPTURED and session.payment_status == "paid":
            return answer if _agree(session, intent) else replace(answer, amount_minor=None)
        # Over, and the payment failed afterwards: nobody can try another card there.
        if answer.kind in {ChargeOutcome.DECLINED, ChargeOutcome.REFUSED} and session.payment_status == "unpaid":
            return answer
    if session.status == "expired" and session.payment_status == "unpaid" and not _may_have_money(session):
        message = "The payment page ran out before anybody paid."
        return Charged(ChargeOutcome.REFUSED, code="page_expired", message=message)
    return Charged(ChargeOutcome.UNKNOWN, code="page_open" if session.status == "open" else "page_unclear")


def _may_have_money(session: Session) -> bool:
    intent = session.payment_intent
    if isinstance(intent, Intent):
        return intent.status in {"succeeded", "processing", "requires_capture"}
    return intent is not None


def _agree(session: Session, intent: Intent) -> bool:
    received = intent.amount if intent.amount_received is None else intent.amount_received
    return (session.amount_total, session.currency) == (received, intent.currency)
