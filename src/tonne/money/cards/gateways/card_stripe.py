"""Card payments through Stripe: stored cards charged off-session, and Stripe's hosted payment page."""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aiohttp
import msgspec
import stripe
import structlog

from tonne.money.cards.gateways import stripe_pages, stripe_payments, stripe_responses
from tonne.money.cards.gateways.card import (
    MODE_MISMATCH,
    CardDetails,
    CardNotDescribed,
    CardNotFound,
    CardSetup,
    CardSetupPage,
    CardSetupRequest,
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    ConfirmationStart,
    HostedPage,
    PageNotOpened,
    PageRequest,
    PayerPageFailed,
    PaymentNotRead,
    PaymentPage,
    RecordedPayment,
    RefundOutcome,
    RefundResult,
    StoredCard,
)
from tonne.money.cards.gateways.stripe_key import mode_of_key
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Clock, Mode, replace, utc_now

# Banks may take long to authorise. A shorter time-out would only leave more charges with an unknown result.
TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
# How far back to search for a page whose id was not recorded. Older pages have expired; the hour allows for clock skew.
_LOOK_BACK = stripe_pages.MAX_PAGE_LIFE + timedelta(hours=1)
# What Stripe says about an object of the mode that the key does not belong to.
_OTHER_MODE = "a similar object exists in"

_log = structlog.get_logger()
T = TypeVar("T")


class StripeCardGateway:
    """Never retries: the caller retries under the same id and counts its attempts."""

    def __init__(
        self, secret_key: str, api_base: str | None = None, timeout_s: float = TIMEOUT_S, *, clock: Clock = utc_now
    ) -> None:
        # With a key of the other mode, Stripe's test cards would pay for real credits, or a test order would take real
        # money. Charges are therefore made only if the modes of order and key are the same.
        self.mode = mode_of_key(secret_key)
        # Telemetry writes an id into the home folder and sends it with facts about this machine.
        stripe.enable_telemetry = False
        # Below WARNING the SDK logs whole responses, including secrets.
        logging.getLogger("stripe").setLevel(logging.WARNING)
        self._secret_key = secret_key
        self._clock = clock
        self._timeout_s = timeout_s
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s / 2))
        self._http = stripe.AIOHTTPClient(timeout=timeout)
        self._stripe = stripe.StripeClient(
            secret_key,
            http_client=self._http,
            max_network_retries=0,
            base_addresses={"api": api_base.rstrip("/")} if api_base else None,
        ).v1

    async def charge(self, request: ChargeRequest) -> ChargeResult:
        amount = self._amount_of(request)
        if isinstance(amount, ChargeResult):
            return amount
        try:
            intent = await self._stripe.payment_intents.create_async(
                {
                    "amount": amount,
                    "currency": request.currency.lower(),
                    "customer": request.card.customer,
                    "payment_method": request.card.method,
                    "allowed_payment_method_types": ["card"],
                    "capture_method": "automatic",
                    "confirm": True,
                    "off_session": True,
                    "description": request.description,
                    "metadata": stripe_pages.metadata_of(request),
                },
                {"idempotency_key": request.id},
            )
            return stripe_responses.result_of_intent(intent.to_dict())
        except Exception as error:  # noqa: BLE001 - after sending, any unexpected response means `unknown`
            if (refused := stripe_responses.refusal_of(error)) is not None:
                return replace(refused, message=self._without_key(refused.message))
            failure = self._classify(error, charge_id=request.id)
            return ChargeResult(ChargeOutcome(failure.kind), code=failure.code, message=failure.message)

    async def look_up(self, request: ChargeRequest) -> ChargeResult:
        """List the customer's payment intents, newest first: Stripe's search index lags behind."""
        if isinstance(request.source, HostedPage):
            return await self._look_up_page(request)
        try:
            intent = await self._find_intent(request)
            if intent is None:
                return ChargeResult(ChargeOutcome.NOT_FOUND)
            return await self._with_refunds(stripe_responses.result_of(intent))
        except Exception as error:  # noqa: BLE001 - any failure leaves the result unknown
            return self._unknown(error, request)

    async def cancel(self, request: ChargeRequest) -> ChargeResult:
        """Cancels the payment intent. If Stripe refuses that, the intent has got another result meanwhile."""
        try:
            intent = await self._find_intent(request)
            if intent is None:
                return ChargeResult(ChargeOutcome.NOT_FOUND)
            if intent.status == "canceled":
                return stripe_responses.result_of(intent)
            made = await self._stripe.payment_intents.cancel_async(intent.id, {"cancellation_reason": "abandoned"})
            return stripe_responses.result_of_intent(made.to_dict())
        except stripe.InvalidRequestError:
            return await self.look_up(request)
        except Exception as error:  # noqa: BLE001 - any failure leaves the result unknown
            return self._unknown(error, request)

    async def confirm(self, request: ChargeRequest, return_url: str) -> ConfirmationStart:
        """Confirms the payment intent of the charge on-session; the cardholder authenticates at the URL.

        An intent that waits for the cardholder already keeps its URL: it cannot be confirmed twice.
        """
        try:
            intent = await self._find_intent(request)
            if intent is not None and intent.status in {"requires_payment_method", "requires_confirmation"}:
                made = await self._stripe.payment_intents.confirm_async(
                    intent.id, {"payment_method": request.card.method, "return_url": return_url}
                )
                intent = msgspec.convert(made.to_dict(), stripe_responses.PaymentIntentObject)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            if (refused := stripe_responses.refusal_of(error)) is not None:
                return ConfirmationStart(None, replace(refused, message=self._without_key(refused.message)))
            raise PayerPageFailed(self._classify(error, charge_id=request.id).message) from None
        if intent is None:
            raise PayerPageFailed("Stripe does not know this payment yet. Try again in a few minutes.")
        if intent.status == "requires_action" and intent.redirect_url is not None:
            return ConfirmationStart(intent.redirect_url)
        return ConfirmationStart(None, stripe_responses.result_of(intent))

    async def open_card_setup(self, request: CardSetupRequest) -> CardSetupPage:
        try:
            made = await self._stripe.checkout.sessions.create_async(stripe_pages.setup_params(request))
            session = msgspec.convert(made.to_dict(), stripe_pages.SetupSession)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            raise PayerPageFailed(self._classify(error, account_id=request.account_id).message) from None
        return stripe_pages.setup_page_of(session, request)

    async def look_up_card_setup(self, session_id: str, account_id: str) -> CardSetup:
        try:
            found = await self._stripe.checkout.sessions.retrieve_async(session_id, {"expand": ["setup_intent"]})
            session = msgspec.convert(found.to_dict(), stripe_pages.SetupSession)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            raise PayerPageFailed(self._classify(error, account_id=account_id).message) from None
        return stripe_pages.card_setup_of(session, account_id)

    async def open_page(self, request: PageRequest) -> PaymentPage:
        """A page whose creation response was lost is harmless: nobody knows its URL until a repeat finds it."""
        amount = self._amount_of(request.charge)
        if isinstance(amount, ChargeResult):
            raise PageNotOpened(amount.message)
        try:
            session = await self._open_session(request, amount)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            raise PageNotOpened(self._classify(error, charge_id=request.charge.id).message) from None
        if session is None:
            raise PageNotOpened("The payment page is being opened by another request. Try again in a moment.")
        return stripe_pages.page_of(session, request.charge)

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> RefundResult:
        """Searches for the refund first: Stripe keeps metadata, but drops idempotency keys after a day."""
        amount = stripe_responses.to_stripe_amount(amount_minor, currency)
        if amount is None:
            money = f"{format_money(amount_minor, currency)} {currency}"
            message = f"Stripe cannot refund {money}: the amount must be positive and in units that Stripe supports."
            return RefundResult(RefundOutcome.FAILED, message=message)
        try:
            earlier = await self._find_refund(refund_id, reference)
        except Exception as error:  # noqa: BLE001 - nothing was sent, but an earlier request may have made the refund
            failure = self._classify(error, refund_id=refund_id)
            is_unknown = _is_missing(error) and _OTHER_MODE not in str(error)
            kind = RefundOutcome.FAILED if is_unknown else RefundOutcome(failure.kind)
            return RefundResult(kind, message=failure.message)
        if earlier is not None:
            return stripe_payments.refund_result_of(earlier)
        try:
            made = await self._stripe.refunds.create_async(
                {"payment_intent": reference, "amount": amount, "metadata": {"refund_id": refund_id}},
                {"idempotency_key": refund_id},
            )
            return stripe_payments.refund_result_of(msgspec.convert(made.to_dict(), stripe_payments.RefundObject))
        except Exception as error:  # noqa: BLE001 - any failure leaves the result unknown
            failure = self._classify(error, refund_id=refund_id)
            if isinstance(error, stripe.InvalidRequestError | stripe.CardError | stripe.IdempotencyError):
                return RefundResult(RefundOutcome.FAILED, message=failure.message)
            return RefundResult(RefundOutcome(failure.kind), message=failure.message)

    async def read_payment(self, reference: str) -> RecordedPayment:
        return await self._read(stripe_payments.read_payment(self._stripe, reference))

    async def list_changed(self, since: datetime) -> set[str]:
        return await self._read(stripe_payments.list_changed(self._stripe, since))

    async def describe(self, card: StoredCard) -> CardDetails:
        try:
            found = await self._stripe.payment_methods.retrieve_async(card.method)
            method = msgspec.convert(found.to_dict(), stripe_responses.PaymentMethodObject)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            if _is_missing(error):
                raise CardNotFound(f"Stripe has no payment method {card.method}. Check the id.") from None
            raise CardNotDescribed(self._classify(error, method=card.method).message) from None
        if stripe_responses.mode_of(livemode=method.livemode) is not self.mode:
            raise CardNotFound(f"The card {card.method} does not belong to Stripe's {self.mode} mode. Check the id.")
        if method.card is None:
            raise CardNotFound(f"The payment method {card.method} is not a card. Store a card at Stripe.")
        if method.customer != card.customer:
            raise CardNotFound(f"The card {card.method} does not belong to customer {card.customer}. Attach it first.")
        details = method.card
        expires = f"{details.exp_year:04}-{details.exp_month:02}"
        fingerprint = details.fingerprint or card.method
        return CardDetails(card.customer, card.method, details.brand, details.last4, expires, fingerprint)

    async def forget(self, card: StoredCard) -> None:
        try:
            await self._stripe.payment_methods.detach_async(card.method)
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            if _is_missing(error) or _is_detached(error):
                raise CardNotFound(f"Stripe has no payment method {card.method} of a customer.") from None
            raise CardNotDescribed(self._classify(error, method=card.method).message) from None

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]  # the SDK has no annotation

    def _amount_of(self, request: ChargeRequest) -> int | ChargeResult:
        """The amount in Stripe's units, or a refusal if no request should be made."""
        amount = stripe_responses.to_stripe_amount(request.amount_minor, request.currency)
        if amount is None:
            money = f"{format_money(request.amount_minor, request.currency)} {request.currency}"
            message = f"Stripe cannot charge {money}: the amount must be positive and in units that Stripe supports."
            return ChargeResult(ChargeOutcome.REFUSED, code="amount_not_chargeable", message=message)
        if request.mode is self.mode:
            return amount
        if request.mode is Mode.TEST:
            message = "A test order must not take real money: the Stripe key is a live key."
            return ChargeResult(ChargeOutcome.REFUSED, code=MODE_MISMATCH, message=message)
        # Not refused: the order is valid, and is charged as soon as the operator sets a live key.
        message = "A live order must not be paid with test cards: the Stripe key is a test key."
        _log.error("stripe_key_of_other_mode", charge_id=request.id, remedy="set a live key in TONNE_STRIPE_SECRET_KEY")
        return ChargeResult(ChargeOutcome.UNAVAILABLE, code=MODE_MISMATCH, message=message)

    async def _find_intent(self, request: ChargeRequest) -> stripe_responses.PaymentIntentObject | None:
        """Find the intent of a charge of a stored card by listing the customer's intents, newest first."""
        try:
            first = await self._stripe.payment_intents.list_async({"customer": request.card.customer, "limit": 100})
        except stripe.InvalidRequestError as error:
            if _is_missing(error):
                # Stripe has no such customer, so it has no charge either.
                return None
            raise
        async for intent in stripe_payments.items(first):
            if (intent.get("metadata") or {}).get("charge_id") == request.id:
                return msgspec.convert(intent, stripe_responses.PaymentIntentObject)
        return None

    async def _look_up_page(self, request: ChargeRequest) -> ChargeResult:
        """A page with a recorded id existed, so a missing session is `unknown`, not `not_found`."""
        try:
            session = await self._find_session(request)
            if session is None:
                return ChargeResult(ChargeOutcome.NOT_FOUND)
            return await self._with_refunds(stripe_pages.charge_result_of(session, request.id))
        except Exception as error:  # noqa: BLE001 - any failure leaves the result unknown
            return self._unknown(error, request)

    async def _open_session(self, request: PageRequest, amount: int) -> stripe_pages.Session | None:
        """None if another request is using the charge's id and its page cannot be found yet."""
        charge = request.charge
        if isinstance(charge.source, HostedPage) and charge.source.session_id is not None:
            return await self._read_session(charge.source.session_id)
        try:
            made = await self._stripe.checkout.sessions.create_async(
                stripe_pages.session_params(request, amount, self._clock()), {"idempotency_key": charge.id}
            )
        except stripe.StripeError as error:
            # A repeat may differ in its expiry or redirect URLs; the first page remains the page of this charge.
            if isinstance(error, stripe.IdempotencyError) or error.http_status == 409:
                return await self._find_session(charge)
            raise
        if made.last_response is not None and "Idempotent-Replayed" in made.last_response.headers:
            # A replayed response shows the session at its creation; it may have expired since.
            return await self._read_session(made.id)
        return msgspec.convert(made.to_dict(), stripe_pages.Session)

    async def _find_session(self, request: ChargeRequest) -> stripe_pages.Session | None:
        """By id, else by listing recent sessions. Raises TimeoutError if the listing does not finish in time."""
        if isinstance(request.source, HostedPage) and request.source.session_id is not None:
            return await self._read_session(request.source.session_id)
        since = int((self._clock() - _LOOK_BACK).timestamp())
        async with asyncio.timeout(self._timeout_s):
            first = await self._stripe.checkout.sessions.list_async({"created": {"gte": since}, "limit": 100})
            async for session in stripe_payments.items(first):
                if session.get("client_reference_id") == request.id:
                    return await self._read_session(session["id"])
            return None

    async def _read_session(self, session_id: str) -> stripe_pages.Session:
        found = await self._stripe.checkout.sessions.retrieve_async(
            session_id, {"expand": ["payment_intent.latest_charge"]}
        )
        return msgspec.convert(found.to_dict(), stripe_pages.Session)

    async def _find_refund(self, refund_id: str, reference: str) -> stripe_payments.RefundObject | None:
        found = await stripe_payments.list_refunds(self._stripe, reference)
        return next((refund for refund in found if (refund.metadata or {}).get("refund_id") == refund_id), None)

    async def _with_refunds(self, result: ChargeResult) -> ChargeResult:
        """A captured payment with what somebody has refunded at Stripe since."""
        if result.kind is not ChargeOutcome.CAPTURED or result.reference is None:
            return result
        return replace(result, refunded_minor=await stripe_payments.refunded_minor(self._stripe, result.reference))

    async def _read(self, work: Awaitable[T]) -> T:
        """Bounded in time. Raises PaymentNotRead."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except PaymentNotRead:
            raise
        except Exception as error:  # noqa: BLE001 - translated into the gateway's exception
            raise PaymentNotRead(self._classify(error).message) from None

    def _classify(self, error: Exception, **about: Any) -> stripe_responses.RequestFailure:
        """Also logs the failure for the operator, without the secret key."""
        failure = stripe_responses.classify_error(error)
        failure = msgspec.structs.replace(failure, message=self._without_key(failure.message))
        log = _log.error if failure.is_ours else _log.warning
        log("stripe_request_failed", kind=failure.kind, code=failure.code, reason=failure.message, **about)
        return failure

    def _unknown(self, error: Exception, request: ChargeRequest) -> ChargeResult:
        failure = self._classify(error, charge_id=request.id)
        return ChargeResult(ChargeOutcome.UNKNOWN, code=failure.code, message=failure.message)

    def _without_key(self, text: str | None) -> str:
        """Stripe masks the key in its messages; a proxy or a replacement server may not."""
        return (text or "").replace(self._secret_key, "…")[:500]


def _is_detached(error: Exception) -> bool:
    """Stripe has no code for a payment method that belongs to no customer any more."""
    return isinstance(error, stripe.InvalidRequestError) and "not attached" in str(error)


def _is_missing(error: Exception) -> bool:
    return isinstance(error, stripe.InvalidRequestError) and error.code == "resource_missing"
