"""What Stripe's answers and failures mean here, and how it counts money. No I/O."""

from collections.abc import Mapping
from typing import Any, Literal

import aiohttp
import msgspec
import stripe

from tonne.base.currency import DECIMALS
from tonne.gateways.card import Charged, ChargeOutcome, Refunded, RefundOutcome

# Where Stripe counts otherwise than ISO 4217, which is how amounts are kept here. The króna and the Ugandan shilling
# have no decimals any more but keep the two they once had at Stripe; the ariary has two by the standard, none there.
_STRIPE_DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}

# Codes that another attempt with the same card cannot change. Every other code counts as soft, unknown ones too: the
# plan of retries is short, and a refusal too early would lose an order that money was there for.
_KINDS: Mapping[str, ChargeOutcome] = {
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


# What Stripe finds fault with when it is the charge itself that cannot be made. Any other invalid request is a mistake
# of ours or of the operator's, and no reason to give up an order.
_PARAMETERS_OF_THE_CHARGE = {"amount", "currency", "customer", "payment_method"}
_CODES_OF_THE_CHARGE = {"amount_too_large", "amount_too_small", "resource_missing"}


class Failure(msgspec.Struct, frozen=True):
    """Why a payment intent did not succeed: Stripe's error object, as an answer and inside an intent."""

    code: str | None = None
    decline_code: str | None = None
    advice_code: str | None = None
    message: str | None = None


class Intent(msgspec.Struct, frozen=True):
    id: str
    status: str
    amount: int
    currency: str
    amount_received: int | None = None
    last_payment_error: Failure | None = None


class Refund(msgspec.Struct, frozen=True):
    id: str
    status: str
    metadata: dict[str, str] = {}
    failure_reason: str | None = None


class Face(msgspec.Struct, frozen=True):
    brand: str
    last4: str
    exp_month: int
    exp_year: int


class Method(msgspec.Struct, frozen=True):
    id: str
    type: str
    customer: str | None = None
    card: Face | None = None


class _IntentId(msgspec.Struct, frozen=True):
    id: str


class _Decline(Failure, frozen=True):
    payment_intent: _IntentId | None = None


class _DeclineAnswer(msgspec.Struct, frozen=True):
    error: _Decline


class Trouble(msgspec.Struct, frozen=True):
    """A request that brought no result. `is_ours`: someone here has to put something right."""

    kind: Literal["unknown", "unavailable"]
    code: str
    message: str
    is_ours: bool = False


def to_stripe_amount(amount_minor: int, currency: str) -> int | None:
    """None when Stripe cannot take this amount: nothing, or with a last digit for which it has no place."""
    ours, theirs = DECIMALS.get(currency, 2), _stripe_decimals(currency)
    amount, rest = divmod(amount_minor * _power(theirs), _power(ours))
    # The card networks have no third decimal: Stripe wants it to be zero.
    return None if rest or (theirs == 3 and amount % 10) or amount <= 0 else amount


def from_stripe_amount(amount: int, currency: str) -> int | None:
    """None when it is no amount of ours, which makes the caller's comparison fail, as it should."""
    amount_minor, rest = divmod(amount * _power(DECIMALS.get(currency, 2)), _power(_stripe_decimals(currency)))
    return None if rest else amount_minor


def _stripe_decimals(currency: str) -> int:
    return _STRIPE_DECIMALS.get(currency, DECIMALS.get(currency, 2))


def _power(decimals: int) -> int:
    return (1, 10, 100, 1000)[decimals]


def kind_of_decline(failure: Failure) -> ChargeOutcome:
    """The bank's own code says more than Stripe's; the networks' advice not to try again stands above both."""
    if failure.advice_code == "do_not_try_again":
        return ChargeOutcome.REFUSED
    for code in (failure.decline_code, failure.code):
        if code is not None and code in _KINDS:
            return _KINDS[code]
    return ChargeOutcome.DECLINED


def declined(answer: object) -> Charged:
    """What the body of a 402 says: it carries the payment intent along. Raises nothing: a 402 is never a capture."""
    try:
        failure = msgspec.convert(answer, _DeclineAnswer).error
    except msgspec.ValidationError:
        return Charged(ChargeOutcome.DECLINED, code="card_declined")
    reference = failure.payment_intent.id if failure.payment_intent is not None else None
    code = failure.decline_code or failure.code
    return Charged(kind_of_decline(failure), reference, code=code, message=failure.message)


def charged(answer: Mapping[str, Any]) -> Charged:
    """What a payment intent says. Raises msgspec.ValidationError when it is none.

    Only an intent that has come to an end is anything but `unknown`: one that was not confirmed, or has no failure on
    it, may still be under way behind a request that timed out, and a second charge beside it would be a double one.
    """
    return charged_with(msgspec.convert(answer, Intent))


def charged_with(intent: Intent) -> Charged:
    currency = intent.currency.upper()
    if intent.status == "succeeded":
        amount = intent.amount if intent.amount_received is None else intent.amount_received
        return Charged(ChargeOutcome.CAPTURED, intent.id, from_stripe_amount(amount, currency), currency)
    amount_minor = from_stripe_amount(intent.amount, currency)
    if intent.status == "requires_action":
        kind, failure = ChargeOutcome.AUTHENTICATION_REQUIRED, Failure("authentication_required")
    elif intent.status == "canceled":
        kind, failure = ChargeOutcome.REFUSED, Failure("canceled", message="The payment was cancelled at the gateway.")
    elif intent.status == "requires_payment_method" and intent.last_payment_error is not None:
        kind, failure = kind_of_decline(intent.last_payment_error), intent.last_payment_error
    else:
        kind, failure = ChargeOutcome.UNKNOWN, Failure(intent.status)
    return Charged(kind, intent.id, amount_minor, currency, failure.decline_code or failure.code, failure.message)


def refunded(refund: Refund) -> Refunded:
    """`pending` is as good as done: Stripe has taken it on, and sends an event should the bank not take it."""
    if refund.status in {"succeeded", "pending"}:
        return Refunded(RefundOutcome.REFUNDED, refund.id)
    return Refunded(
        RefundOutcome.FAILED, refund.id, f"Stripe could not refund: {refund.failure_reason or refund.status}."
    )


def refusal(error: Exception) -> Charged | None:
    """Failures that say that this very charge cannot be made; None for all others."""
    if isinstance(error, stripe.CardError):
        return declined(error.json_body)
    if isinstance(error, stripe.IdempotencyError):
        message = "This id was used for a charge of another amount or card: a new charge needs a new id."
        return Charged(ChargeOutcome.REFUSED, code="idempotency_mismatch", message=message)
    if isinstance(error, stripe.InvalidRequestError) and (
        error.param in _PARAMETERS_OF_THE_CHARGE or error.code in _CODES_OF_THE_CHARGE
    ):
        return Charged(ChargeOutcome.REFUSED, code=error.code or "invalid_request", message=error.user_message)
    return None


def judge(error: Exception) -> Trouble:
    """`unavailable` only when it is sure that the request has done nothing; in doubt `unknown`."""
    cause = error.__cause__ if isinstance(error, stripe.APIConnectionError) else error
    for kinds, trouble in _TROUBLES:
        if isinstance(cause, kinds):
            return trouble
    if isinstance(error, stripe.InvalidRequestError | stripe.IdempotencyError | stripe.CardError):
        message = error.user_message or "Stripe does not accept the request."
        return Trouble("unavailable", error.code or "invalid_request", message, is_ours=True)
    status = getattr(error, "http_status", None)
    message = f"Stripe answered with the status {status}." if status else "Stripe gave an answer that makes no sense."
    return Trouble("unknown", "gateway_error", message)


# The first that fits: a connection that was never made is an OSError too, and may be one that timed out.
_TROUBLES: tuple[tuple[tuple[type[Exception], ...], Trouble], ...] = (
    (
        (stripe.AuthenticationError,),
        Trouble("unavailable", "gateway_key_refused", "Stripe does not accept the secret key: check it.", is_ours=True),
    ),
    (
        (stripe.PermissionError,),
        Trouble("unavailable", "gateway_key_refused", "Stripe does not let the secret key do this.", is_ours=True),
    ),
    ((stripe.RateLimitError,), Trouble("unavailable", "gateway_rate_limited", "Stripe takes no more requests now.")),
    # Nothing of the request has left this machine when one of these is raised.
    (
        (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL),
        Trouble("unavailable", "gateway_unreachable", "Stripe cannot be reached."),
    ),
    ((TimeoutError,), Trouble("unknown", "gateway_timeout", "Stripe did not answer in time.")),
    (
        (OSError, aiohttp.ClientError),
        Trouble("unknown", "gateway_connection_lost", "The connection to Stripe was lost before its answer."),
    ),
)
