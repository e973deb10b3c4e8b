"""Payments over HTTP: cancelling, the test helpers, and what Stripe has to say."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from tonne.base.clock import Clock
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Database
from tonne.events.hint import Hints
from tonne.gateways.card import CardGateway
from tonne.gateways.stripe_events import SignatureInvalid, verify_event
from tonne.http.errors import RouteNotFound
from tonne.http.json_body import read
from tonne.http.route import Answer, Call, json_answer
from tonne.orders.errors import OrderNotFound
from tonne.orders.load_orders import lock_order
from tonne.orders.model import Order
from tonne.orders.schemas import order_document
from tonne.payments.cancel_order import cancel_order
from tonne.payments.card_errors import SignatureRefused
from tonne.payments.chase_invoices import announce_cancelling
from tonne.payments.hear_stripe import hear_stripe
from tonne.payments.model import DeclineCode, Pace
from tonne.payments.simulate_payment import simulate_decline, simulate_payment


class CancelIn(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=500, description="For your records and ours.")] | None = None


class DeclineIn(msgspec.Struct, forbid_unknown_fields=True):
    code: Annotated[DeclineCode, msgspec.Meta(description="What the bank says; card_declined if left out.")] | None = (
        None
    )


class PayIn(msgspec.Struct, forbid_unknown_fields=True):
    """Takes nothing."""


class StripeEventIn(msgspec.Struct):
    """As Stripe sends it. It is verified and read as bytes: see `gateways/stripe_events.py`."""


class HeardOut(msgspec.Struct):
    received: bool = True


class PaymentEndpoints:
    def __init__(
        self,
        database: Database,
        gateways: Mapping[str, CardGateway],
        *,
        clock: Clock,
        settings: Settings,
        hints: Hints,
    ) -> None:
        self._database = database
        self._gateways = gateways
        self._clock = clock
        self._pace = Pace(settings)
        self._settings = settings
        self._hints = hints

    async def cancel_order(self, call: Call) -> Answer:
        body = read(call.json_or_empty(), CancelIn)
        async with self._database.transaction() as tx:
            order = await lock_order(tx, call.scope, call.path("order_id"))
            if order is None:
                raise OrderNotFound
            reason = (body.reason or "").strip() or None
            await announce_cancelling(tx, order, self._settings, reason)
            cancelled = await cancel_order(tx, order, actor=call.actor, reason=reason, now=self._clock())
        return self._show(cancelled)

    async def pay_test_order(self, call: Call) -> Answer:
        _require_test_mode(call)
        read(call.json_or_empty(), PayIn)
        order = await simulate_payment(
            self._database,
            self._gateways["simulated"],
            call.scope,
            call.path("order_id"),
            clock=self._clock,
            pace=self._pace,
        )
        return self._show(order)

    async def decline_test_order(self, call: Call) -> Answer:
        _require_test_mode(call)
        body = read(call.json_or_empty(), DeclineIn)
        async with self._database.transaction() as tx:
            order = await simulate_decline(
                tx,
                call.scope,
                call.path("order_id"),
                body.code or DeclineCode.CARD_DECLINED,
                now=self._clock(),
                pace=self._pace,
            )
        return self._show(order)

    async def cancel_test_order(self, call: Call) -> Answer:
        _require_test_mode(call)
        return await self.cancel_order(call)

    async def hear_stripe(self, call: Call) -> Answer:
        if not self._settings.stripe_webhook_secret:
            raise RouteNotFound
        try:
            signature = call.headers.get(b"stripe-signature", b"").decode("latin-1")
            event = verify_event(call.body, signature, self._settings.stripe_webhook_secret)
        except SignatureInvalid as error:
            raise SignatureRefused from error
        if await hear_stripe(self._database, event, self._clock()):
            self._hints.give()
        return json_answer(HeardOut())

    def _show(self, order: Order) -> Answer:
        """After the commit: whoever has the next step, or a webhook, shall look at once."""
        self._hints.give()
        return Answer(order_document(order))


def _require_test_mode(call: Call) -> None:
    """In live mode there is no such address."""
    if call.scope.mode is not Mode.TEST:
        raise RouteNotFound
