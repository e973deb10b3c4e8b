"""Cards through Stripe: stored there and charged off-session, or typed on its page; each charge under its own id."""

import asyncio
import logging
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import stripe
import structlog

from tonne.base.clock import Clock, utc_now
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.gateways.card import (
    Card,
    CardNotDescribed,
    CardNotFound,
    Charged,
    ChargeOutcome,
    ChargeRequest,
    Refunded,
    RefundOutcome,
    StoredCard,
)
from tonne.gateways.payment_page import PAGE_TO_COME, PageNotOpened, PageRequest, PaymentPage, is_paid_on_page
from tonne.gateways.stripe_answers import (
    Method,
    Refund,
    Trouble,
    charged,
    judge,
    refunded,
    refusal,
    to_stripe_amount,
)
from tonne.gateways.stripe_pages import LIVES_AT_MOST, Session, opened, paid_on, session_params

# Long enough for a bank that thinks it over: giving up early only makes more charges unclear.
TIMEOUT_S = 60.0
CONNECT_WITHIN_S = 10.0
_PAGE = 100
# How far back a page is looked for whose name we do not know: older ones take no payment any more. An hour more than
# they live, for clocks that differ.
_LOOK_BACK = LIVES_AT_MOST + timedelta(hours=1)
_KEY = re.compile(r"[sr]k_[A-Za-z0-9_]{1,250}")

_log = structlog.get_logger()


class StripeCardGateway:
    """Never retries by itself: the caller does, under the same id, and knows how often it has."""

    def __init__(
        self, secret_key: str, api_base: str | None = None, timeout_s: float = TIMEOUT_S, *, clock: Clock = utc_now
    ) -> None:
        if not _KEY.fullmatch(secret_key):
            raise ValueError("The secret key of Stripe must start with sk_ or rk_, without spaces: check the setting.")
        # It would write an id into the home folder and send it along, with facts about this machine.
        stripe.enable_telemetry = False
        # Below this it writes down whole answers, with what is secret in them.
        logging.getLogger("stripe").setLevel(logging.WARNING)
        self._secret_key = secret_key
        self._clock = clock
        self._timeout_s = timeout_s
        self._is_live = secret_key.startswith(("sk_live_", "rk_live_"))
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(CONNECT_WITHIN_S, timeout_s / 2))
        self._http = stripe.AIOHTTPClient(timeout=timeout)
        self._stripe = stripe.StripeClient(
            secret_key,
            http_client=self._http,
            max_network_retries=0,
            base_addresses={"api": api_base.rstrip("/")} if api_base else None,
        ).v1

    async def charge(self, request: ChargeRequest) -> Charged:
        amount = self._amount_of(request)
        if isinstance(amount, Charged):
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
                    "metadata": {
                        "charge_id": request.id,
                        "order_id": request.order_id,
                        "account_id": request.account_id,
                    },
                },
                {"idempotency_key": request.id},
            )
            return charged(intent.to_dict())
        except Exception as error:  # noqa: BLE001 - once it is sent, anything odd in the answer leaves the outcome open
            if (refused := refusal(error)) is not None:
                return replace(refused, message=self._without_key(refused.message))
            trouble = self._judge(error, charge_id=request.id)
            return Charged(ChargeOutcome(trouble.kind), code=trouble.code, message=trouble.message)

    async def look_up(self, request: ChargeRequest) -> Charged:
        """Among the customer's payment intents, newest first: Stripe's search would not know the latest ones yet."""
        if is_paid_on_page(request.card):
            return await self._look_up_page(request)
        try:
            page = await self._stripe.payment_intents.list_async({"customer": request.card.customer, "limit": _PAGE})
            while True:
                for intent in page.data:
                    found = intent.to_dict()
                    if (found.get("metadata") or {}).get("charge_id") == request.id:
                        return charged(found)
                if not page.has_more:
                    return Charged(ChargeOutcome.NOT_FOUND)
                page = await page.next_page_async()
        except Exception as error:  # noqa: BLE001 - whatever it is, we have learned nothing about the charge
            if _is_missing(error):
                # Whoever is no customer there was never charged there.
                return Charged(ChargeOutcome.NOT_FOUND)
            trouble = self._judge(error, charge_id=request.id)
            return Charged(ChargeOutcome.UNKNOWN, code=trouble.code, message=trouble.message)

    async def open_page(self, request: PageRequest) -> PaymentPage:
        """A page that was made while the answer got lost does no harm: nobody has its address until it is found."""
        amount = self._amount_of(request.charge)
        if isinstance(amount, Charged):
            raise PageNotOpened(amount.message)
        try:
            session = await self._open_session(request, amount)
        except Exception as error:  # noqa: BLE001 - raised again, as what it means
            raise PageNotOpened(self._judge(error, charge_id=request.charge.id).message) from None
        if session is None:
            raise PageNotOpened("The payment page is being opened elsewhere, or was not opened: try again in a moment.")
        return opened(session, request.charge.id)

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> Refunded:
        """Looks for the refund first: Stripe forgets idempotency keys after a day, its metadata never."""
        amount = to_stripe_amount(amount_minor, currency)
        if amount is None:
            money = f"{format_money(amount_minor, currency)} {currency}"
            message = f"Stripe cannot refund {money}: it must be above zero and in steps that Stripe takes."
            return Refunded(RefundOutcome.FAILED, message=message)
        try:
            if (earlier := await self._find_refund(refund_id, reference)) is not None:
                return refunded(earlier)
            made = await self._stripe.refunds.create_async(
                {"payment_intent": reference, "amount": amount, "metadata": {"refund_id": refund_id}},
                {"idempotency_key": refund_id},
            )
            return refunded(msgspec.convert(made.to_dict(), Refund))
        except Exception as error:  # noqa: BLE001 - as for a charge
            trouble = self._judge(error, refund_id=refund_id)
            if isinstance(error, stripe.InvalidRequestError | stripe.CardError | stripe.IdempotencyError):
                return Refunded(RefundOutcome.FAILED, message=trouble.message)
            return Refunded(RefundOutcome(trouble.kind), message=trouble.message)

    async def describe(self, card: Card) -> StoredCard:
        try:
            answer = await self._stripe.payment_methods.retrieve_async(card.method)
            method = msgspec.convert(answer.to_dict(), Method)
        except Exception as error:  # noqa: BLE001 - raised again, as what it means
            if _is_missing(error):
                raise CardNotFound(f"Stripe knows no card {card.method}: check the payment method's id.") from None
            raise CardNotDescribed(self._judge(error, method=card.method).message) from None
        if method.card is None:
            raise CardNotFound(f"The payment method {card.method} is not a card: store a card at Stripe.")
        if method.customer != card.customer:
            raise CardNotFound(f"The card {card.method} does not belong to the customer {card.customer}: attach it.")
        face = method.card
        return StoredCard(card.customer, card.method, face.brand, face.last4, f"{face.exp_year:04}-{face.exp_month:02}")

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]  # the SDK has left it out

    def _amount_of(self, request: ChargeRequest) -> int | Charged:
        """In Stripe's units; or why it is refused without asking Stripe."""
        amount = to_stripe_amount(request.amount_minor, request.currency)
        if amount is None:
            money = f"{format_money(request.amount_minor, request.currency)} {request.currency}"
            message = f"Stripe cannot charge {money}: it must be above zero and in steps that Stripe takes."
            return Charged(ChargeOutcome.REFUSED, code="amount_not_chargeable", message=message)
        if self._is_live and request.mode is Mode.TEST:
            message = "An order in test mode must not take real money: the key of Stripe is a live one."
            return Charged(ChargeOutcome.REFUSED, code="mode_mismatch", message=message)
        return amount

    async def _look_up_page(self, request: ChargeRequest) -> Charged:
        """A page that has a name was there once: that Stripe does not know it does not mean that nobody has paid."""
        try:
            session = await self._find_session(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, we have learned nothing about the charge
            trouble = self._judge(error, charge_id=request.id)
            return Charged(ChargeOutcome.UNKNOWN, code=trouble.code, message=trouble.message)
        return Charged(ChargeOutcome.NOT_FOUND) if session is None else paid_on(session, request.id)

    async def _open_session(self, request: PageRequest, amount: int) -> Session | None:
        """None when another request has used the charge's id and no page is to be found, so far."""
        charge = request.charge
        if charge.card.method != PAGE_TO_COME.method:
            return await self._read_session(charge.card.method)
        try:
            made = await self._stripe.checkout.sessions.create_async(
                session_params(request, amount, self._clock()), {"idempotency_key": charge.id}
            )
        except stripe.StripeError as error:
            # A repeat may ask for another end or another address to come back to: the first page is the page.
            if isinstance(error, stripe.IdempotencyError) or error.http_status == 409:
                return await self._find_session(charge)
            raise
        if made.last_response is not None and "Idempotent-Replayed" in made.last_response.headers:
            # What it was like when it was made. It may be over by now.
            return await self._read_session(made.id)
        return msgspec.convert(made.to_dict(), Session)

    async def _find_session(self, request: ChargeRequest) -> Session | None:
        """By its name, or among the latest, newest first. Not to have seen all of those in time is a failure."""
        if request.card.method != PAGE_TO_COME.method:
            return await self._read_session(request.card.method)
        since = int((self._clock() - _LOOK_BACK).timestamp())
        async with asyncio.timeout(self._timeout_s):
            page = await self._stripe.checkout.sessions.list_async({"created": {"gte": since}, "limit": _PAGE})
            while True:
                for session in page.data:
                    if session.client_reference_id == request.id:
                        return await self._read_session(session.id)
                if not page.has_more:
                    return None
                page = await page.next_page_async()

    async def _read_session(self, reference: str) -> Session:
        found = await self._stripe.checkout.sessions.retrieve_async(reference, {"expand": ["payment_intent"]})
        return msgspec.convert(found.to_dict(), Session)

    async def _find_refund(self, refund_id: str, reference: str) -> Refund | None:
        page = await self._stripe.refunds.list_async({"payment_intent": reference, "limit": _PAGE})
        while True:
            for answer in page.data:
                refund = msgspec.convert(answer.to_dict(), Refund)
                if refund.metadata.get("refund_id") == refund_id:
                    return refund
            if not page.has_more:
                return None
            page = await page.next_page_async()

    def _judge(self, error: Exception, **about: Any) -> Trouble:
        """On record too: what keeps charges from going through is for the operator to see. The key never is."""
        trouble = judge(error)
        trouble = msgspec.structs.replace(trouble, message=self._without_key(trouble.message))
        log = _log.error if trouble.is_ours else _log.warning
        log("stripe_trouble", kind=trouble.kind, code=trouble.code, reason=trouble.message, **about)
        return trouble

    def _without_key(self, text: str | None) -> str:
        """Stripe masks the key when it quotes it; whatever stands in for Stripe may not."""
        return (text or "").replace(self._secret_key, "…")[:500]


def _is_missing(error: Exception) -> bool:
    return isinstance(error, stripe.InvalidRequestError) and error.code == "resource_missing"
