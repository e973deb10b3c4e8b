"""Which card gateways exist, and which one each mode uses. Requests are counted and timed, and none is made on hold."""

import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct, field

from tonne.money.cards.gateways.card import (
    CardDetails,
    CardGateway,
    CardNotDescribed,
    CardNotFound,
    CardSetup,
    CardSetupPage,
    CardSetupRequest,
    ChargeRequest,
    ChargeResult,
    ConfirmationStart,
    PageNotOpened,
    PageRequest,
    PayerPageFailed,
    PayerPages,
    PaymentNotRead,
    PaymentPage,
    PaymentPages,
    RecordedPayment,
    RefundResult,
    StoredCard,
)
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.platform.db.database import Database
from tonne.platform.db.errors import ServiceHeld
from tonne.platform.db.queues import HoldWatch
from tonne.platform.process.cost import give_place_back
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import SLOW_BOUNDS, CounterFamily, HistogramFamily, Metric
from tonne.platform.process.telemetry.spans import Span, SpanKind
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

T = TypeVar("T")


class GatewayMetrics(Struct, frozen=True):
    requests: CounterFamily = field(
        default_factory=lambda: CounterFamily(
            "tonne_gateway_requests_total", "Requests to card gateways.", "gateway", "operation", "outcome"
        )
    )
    seconds: HistogramFamily = field(
        default_factory=lambda: HistogramFamily(
            "tonne_gateway_request_seconds",
            "Duration of requests to card gateways.",
            "gateway",
            "operation",
            bounds=SLOW_BOUNDS,
        )
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.requests, self.seconds


class MeteredGateway(Struct, frozen=True):
    name: str
    inner: CardGateway
    meter: GatewayMetrics
    hold: HoldWatch

    async def charge(self, request: ChargeRequest) -> ChargeResult:
        return await self._timed("charge", self.inner.charge(request), lambda result: result.kind)

    async def look_up(self, request: ChargeRequest) -> ChargeResult:
        return await self._timed("look_up", self.inner.look_up(request), lambda result: result.kind)

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> RefundResult:
        request = self.inner.refund(refund_id, reference, amount_minor, currency)
        return await self._timed("refund", request, lambda result: result.kind)

    async def cancel(self, request: ChargeRequest) -> ChargeResult:
        return await self._timed("cancel", self.inner.cancel(request), lambda result: result.kind)

    async def read_payment(self, reference: str) -> RecordedPayment:
        return await self._timed("read_payment", self.inner.read_payment(reference), lambda _: "read")

    async def list_changed(self, since: datetime) -> set[str]:
        return await self._timed("list_changed", self.inner.list_changed(since), lambda _: "listed")

    async def describe(self, card: StoredCard) -> CardDetails:
        return await self._timed("describe", self.inner.describe(card), lambda _: "described")

    async def forget(self, card: StoredCard) -> None:
        await self._timed("forget", self.inner.forget(card), lambda _: "forgotten")

    async def close(self) -> None:
        await self.inner.close()

    async def _timed(self, operation: str, request: Coroutine[Any, Any, T], outcome_of: Callable[[T], str]) -> T:
        if self.hold.is_held:
            request.close()
            raise ServiceHeld
        give_place_back()
        attributes = {"tonne.gateway": self.name, "tonne.operation": operation}
        with tracing.span(f"gateway {operation}", SpanKind.CLIENT, attributes) as span:
            return await self._measured(operation, request, outcome_of, span)

    async def _measured(
        self, operation: str, request: Coroutine[Any, Any, T], outcome_of: Callable[[T], str], span: Span
    ) -> T:
        started = time.monotonic()
        outcome = "crashed"
        try:
            result = await request
            outcome = str(outcome_of(result))
        except CardNotFound:
            outcome = "not_found"
            raise
        except (CardNotDescribed, PageNotOpened, PayerPageFailed, PaymentNotRead):
            outcome = "unavailable"
            raise
        finally:
            self.meter.seconds.of(self.name, operation).observe(time.monotonic() - started)
            self.meter.requests.inc(self.name, operation, outcome)
            span.set("tonne.outcome", outcome)
        return result


class MeteredPageGateway(MeteredGateway, frozen=True):
    """A gateway that also has pages for payers."""

    pages: PaymentPages
    payer_pages: PayerPages

    async def open_page(self, request: PageRequest) -> PaymentPage:
        return await self._timed("open_page", self.pages.open_page(request), lambda _: "opened")

    async def confirm(self, request: ChargeRequest, return_url: str) -> ConfirmationStart:
        return await self._timed("confirm", self.payer_pages.confirm(request, return_url), lambda _: "opened")

    async def open_card_setup(self, request: CardSetupRequest) -> CardSetupPage:
        return await self._timed("open_card_setup", self.payer_pages.open_card_setup(request), lambda _: "opened")

    async def look_up_card_setup(self, session_id: str, account_id: str) -> CardSetup:
        request = self.payer_pages.look_up_card_setup(session_id, account_id)
        return await self._timed("look_up_card_setup", request, lambda setup: "open" if setup.is_open else "closed")


def metered(name: str, gateway: CardGateway, meter: GatewayMetrics, hold: HoldWatch) -> CardGateway:
    if isinstance(gateway, PaymentPages) and isinstance(gateway, PayerPages):
        return MeteredPageGateway(name, gateway, meter, hold, gateway, gateway)
    return MeteredGateway(name, gateway, meter, hold)


GATEWAY_OF: dict[Mode, str] = {Mode.LIVE: "stripe", Mode.TEST: "simulated"}
# As customers know them.
GATEWAY_NAMES = {"stripe": "Stripe", "simulated": "Stripe"}


def takes_cards(settings: Settings, mode: Mode) -> bool:
    """Whether the gateway of the mode is configured."""
    return mode is Mode.TEST or bool(settings.stripe_secret_key)


def card_gateways(
    database: Database, settings: Settings, meter: GatewayMetrics | None = None, hold: HoldWatch | None = None
) -> dict[str, CardGateway]:
    """The configured gateways by name. The caller closes them."""
    gateways: dict[str, CardGateway] = {"simulated": SimulatedCardGateway(database)}
    if settings.stripe_secret_key:
        # Imported only if it is used: the library takes time and memory.
        from tonne.money.cards.gateways.card_stripe import StripeCardGateway  # noqa: PLC0415

        live = StripeCardGateway(settings.stripe_secret_key, settings.stripe_api_base or None)
        if live.mode is not Mode.LIVE:
            raise ValueError("TONNE_STRIPE_SECRET_KEY must be a live key. Test mode uses the simulated gateway.")
        gateways[GATEWAY_OF[Mode.LIVE]] = live
    if meter is None or hold is None:
        return gateways
    return {name: metered(name, gateway, meter, hold) for name, gateway in gateways.items()}
