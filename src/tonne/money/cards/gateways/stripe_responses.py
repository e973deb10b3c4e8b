"""Translate Stripe's responses, errors and amounts. No I/O."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import aiohttp
import msgspec
import stripe

from tonne.money.cards.gateways.card import ChargeOutcome, ChargeResult
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode

# Currencies whose decimals at Stripe differ from ISO 4217. Stripe keeps two decimals for ISK and UGX, which have none,
# and has none for MGA, which has two.
_STRIPE_DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}

# Codes for which a retry with the same card is pointless. All other codes, unknown ones included, are soft declines:
# there are few retries, and a wrong hard decline would lose a payable order.
_OUTCOMES: Mapping[str, ChargeOutcome] = {
    **dict.fromkeys(
        (
            *("card_not_supported", "currency_not_supported", "do_not_try_again", "expired_card", "fraudulent"),
            *("highest_risk_level", "incorrect_address", "incorrect_cvc", "incorrect_number", "incorrect_zip"),
            *("invalid_account", "invalid_card_type", "invalid_cvc", "invalid_expiry_month", "invalid_expiry_year"),
            *("invalid_number", "live_mode_test_card", "lost_card", "merchant_blacklist"),
            *("new_account_information_available", "not_permitted", "pickup_card"),
            *("previously_declined_do_not_retry", "restricted_card", "revocation_of_all_authorizations"),
            *("revocation_of_authorization", "security_violation", "service_not_allowed", "stolen_card"),
            *("stop_payment_order", "testmode_decline", "transaction_not_allowed"),
        ),
        ChargeOutcome.REFUSED,
    ),
    **dict.fromkeys(
        ("authentication_not_handled", "authentication_required", "payment_intent_authentication_failure"),
        ChargeOutcome.AUTHENTICATION_REQUIRED,
    ),
}


# Invalid requests with these parameters or codes mean that the charge itself cannot be made. Any other invalid request
# is a programming or configuration error and must not fail an order.
_CHARGE_PARAMETERS = {"amount", "currency", "customer", "payment_method"}
_CHARGE_CODES = {"amount_too_large", "amount_too_small", "resource_missing"}


class ErrorObject(msgspec.Struct, frozen=True):
    """Stripe's error object, in an error response and in `last_payment_error`."""

    code: str | None = None
    decline_code: str | None = None
    advice_code: str | None = None
    message: str | None = None


class RedirectObject(msgspec.Struct, frozen=True):
    url: str | None = None


class NextActionObject(msgspec.Struct, frozen=True):
    redirect_to_url: RedirectObject | None = None


class _ChargedCard(msgspec.Struct, frozen=True):
    country: str | None = None


class _ChargedMethod(msgspec.Struct, frozen=True):
    card: _ChargedCard | None = None


class ChargeObject(msgspec.Struct, frozen=True):
    payment_method_details: _ChargedMethod | None = None


class PaymentIntentObject(msgspec.Struct, frozen=True):
    """`latest_charge` is an id, or the object if it was expanded."""

    id: str
    status: str
    amount: int
    currency: str
    livemode: bool
    amount_received: int | None = None
    last_payment_error: ErrorObject | None = None
    next_action: NextActionObject | None = None
    latest_charge: ChargeObject | str | None = None

    @property
    def card_country(self) -> str | None:
        charge = self.latest_charge
        details = charge.payment_method_details if isinstance(charge, ChargeObject) else None
        return None if details is None or details.card is None else details.card.country

    @property
    def redirect_url(self) -> str | None:
        """Where the cardholder authenticates."""
        redirect = None if self.next_action is None else self.next_action.redirect_to_url
        return None if redirect is None else redirect.url


class CardObject(msgspec.Struct, frozen=True):
    brand: str
    last4: str
    exp_month: int
    exp_year: int
    # Not every wallet tells it.
    fingerprint: str | None = None


class PaymentMethodObject(msgspec.Struct, frozen=True):
    id: str
    type: str
    livemode: bool
    customer: str | None = None
    card: CardObject | None = None


class _IntentId(msgspec.Struct, frozen=True):
    id: str


class _DeclineObject(ErrorObject, frozen=True):
    payment_intent: _IntentId | None = None


class _DeclineResponse(msgspec.Struct, frozen=True):
    error: _DeclineObject


class RequestFailure(msgspec.Struct, frozen=True):
    """A request without a result. `is_ours`: the operator or a programmer has to fix something."""

    kind: Literal["unknown", "unavailable"]
    code: str
    message: str
    is_ours: bool = False


_unknown = partial(RequestFailure, "unknown")
_unavailable = partial(RequestFailure, "unavailable")
_no_access = partial(_unavailable, "gateway_key_refused", is_ours=True)


def to_stripe_amount(amount_minor: int, currency: str) -> int | None:
    """None if Stripe cannot charge this amount: not positive, or with more decimals than it supports."""
    ours, theirs = DECIMALS.get(currency, 2), _stripe_decimals(currency)
    amount, rest = divmod(amount_minor * _power(theirs), _power(ours))
    # Card networks have no third decimal: Stripe requires it to be zero.
    return None if rest or (theirs == 3 and amount % 10) or amount <= 0 else amount


def from_stripe_amount(amount: int, currency: str) -> int | None:
    """None if it is not a whole number of our units, so that the caller's comparison fails."""
    amount_minor, rest = divmod(amount * _power(DECIMALS.get(currency, 2)), _power(_stripe_decimals(currency)))
    return None if rest else amount_minor


def _stripe_decimals(currency: str) -> int:
    return _STRIPE_DECIMALS.get(currency, DECIMALS.get(currency, 2))


def _power(decimals: int) -> int:
    return (1, 10, 100, 1000)[decimals]


def outcome_of_error(failure: ErrorObject) -> ChargeOutcome:
    """The network's advice not to retry takes precedence, then the bank's code, then Stripe's."""
    if failure.advice_code == "do_not_try_again":
        return ChargeOutcome.REFUSED
    for code in (failure.decline_code, failure.code):
        if code is not None and code in _OUTCOMES:
            return _OUTCOMES[code]
    return ChargeOutcome.DECLINED


def result_of_decline(body: object) -> ChargeResult:
    """The result in the body of a 402. Never raises: even an unreadable 402 is a decline, not a capture."""
    try:
        failure = msgspec.convert(body, _DeclineResponse).error
    except msgspec.ValidationError:
        return ChargeResult(ChargeOutcome.DECLINED, code="card_declined")
    reference = failure.payment_intent.id if failure.payment_intent is not None else None
    code = failure.decline_code or failure.code
    return ChargeResult(outcome_of_error(failure), reference, code=code, message=failure.message)


def result_of_intent(body: Mapping[str, Any]) -> ChargeResult:
    """The result in a payment intent. Raises msgspec.ValidationError if it cannot be read.

    Anything but a final state is `unknown`: an unconfirmed intent, or one without an error, may still be processed
    after a request that timed out, and a second charge would then be a double charge.
    """
    return result_of(msgspec.convert(body, PaymentIntentObject))


def mode_of(*, livemode: bool) -> Mode:
    return Mode.LIVE if livemode else Mode.TEST


def result_of(intent: PaymentIntentObject) -> ChargeResult:
    currency, mode = intent.currency.upper(), mode_of(livemode=intent.livemode)
    if intent.status == "succeeded":
        amount = intent.amount if intent.amount_received is None else intent.amount_received
        amount_minor = from_stripe_amount(amount, currency)
        country = intent.card_country
        return ChargeResult(ChargeOutcome.CAPTURED, intent.id, amount_minor, currency, mode=mode, card_country=country)
    amount_minor = from_stripe_amount(intent.amount, currency)
    if intent.status == "requires_action":
        kind, failure = ChargeOutcome.AUTHENTICATION_REQUIRED, ErrorObject("authentication_required")
    elif intent.status == "canceled":
        kind, failure = ChargeOutcome.REFUSED, ErrorObject("canceled", message="The payment was cancelled at Stripe.")
    elif intent.status == "requires_payment_method" and intent.last_payment_error is not None:
        kind, failure = outcome_of_error(intent.last_payment_error), intent.last_payment_error
    else:
        kind, failure = ChargeOutcome.UNKNOWN, ErrorObject(intent.status)
    code = failure.decline_code or failure.code
    return ChargeResult(kind, intent.id, amount_minor, currency, code, failure.message, mode)


def refusal_of(error: Exception) -> ChargeResult | None:
    """The result for errors that mean this charge cannot be made; None for all others."""
    if isinstance(error, stripe.CardError):
        return result_of_decline(error.json_body)
    if isinstance(error, stripe.IdempotencyError):
        message = "This id was used for another amount or card. Use a new id for a new charge."
        return ChargeResult(ChargeOutcome.REFUSED, code="idempotency_mismatch", message=message)
    if isinstance(error, stripe.InvalidRequestError) and (
        error.param in _CHARGE_PARAMETERS or error.code in _CHARGE_CODES
    ):
        return ChargeResult(ChargeOutcome.REFUSED, code=error.code or "invalid_request", message=error.user_message)
    return None


def classify_error(error: Exception) -> RequestFailure:
    """`unavailable` only if the request certainly had no effect, otherwise `unknown`."""
    cause = error.__cause__ if isinstance(error, stripe.APIConnectionError) else error
    for kinds, failure in _FAILURES:
        if isinstance(cause, kinds):
            return failure
    if isinstance(error, stripe.InvalidRequestError | stripe.IdempotencyError | stripe.CardError):
        message = error.user_message or "Stripe rejected the request."
        return _unavailable(error.code or "invalid_request", message, is_ours=True)
    status = getattr(error, "http_status", None)
    message = f"Stripe responded with status {status}." if status else "Stripe's response could not be read."
    return _unknown("gateway_error", message)


# The first match applies: connection errors are OSErrors too, and some are TimeoutErrors.
_FAILURES: tuple[tuple[tuple[type[Exception], ...], RequestFailure], ...] = (
    ((stripe.AuthenticationError,), _no_access("Stripe rejected the secret key. Check TONNE_STRIPE_SECRET_KEY.")),
    ((stripe.PermissionError,), _no_access("The Stripe secret key lacks the required permission.")),
    ((stripe.RateLimitError,), _unavailable("gateway_rate_limited", "Stripe's rate limit was reached.")),
    # Raised before any part of the request is sent.
    (
        (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL),
        _unavailable("gateway_unreachable", "Stripe cannot be reached."),
    ),
    ((TimeoutError,), _unknown("gateway_timeout", "Stripe did not respond in time.")),
    (
        (OSError, aiohttp.ClientError),
        _unknown("gateway_connection_lost", "The connection to Stripe was lost."),
    ),
)
