"""Card payments over HTTP: the test helpers and Stripe's webhook."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.cards.errors import SignatureRefused
from tonne.cards.handle_stripe_event import handle_stripe_event
from tonne.cards.model import DeclineCode, RetrySchedule
from tonne.cards.simulate_payment import simulate_decline, simulate_payment
from tonne.db.pool import Database
from tonne.events.notify import Notifier
from tonne.gateways.card import CardGateway
from tonne.gateways.stripe_events import SignatureInvalid, verify_event
from tonne.http.errors import RouteNotFound, require_test_mode
from tonne.http.json_body import read
from tonne.http.route import Request, Response, json_response
from tonne.orders.model import Order
from tonne.orders.schemas import order_document


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


@dataclass(frozen=True, slots=True)
class CardEndpoints:
    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def pay_test_order(self, request: Request) -> Response:
        """Pay a placed order by card now.

        Pays a test order with a simulated card that works, whatever card the account has. Test keys only.
        """
        require_test_mode(request.scope)
        read(request.json_or_empty(), PayIn)
        order = await simulate_payment(
            self.database,
            self.gateways["simulated"],
            request.scope,
            request.path("order_id"),
            clock=self.clock,
            schedule=RetrySchedule(self.settings),
        )
        return self._show(order)

    async def decline_test_order(self, request: Request) -> Response:
        """Let the bank decline a placed order's card now.

        Declines the payment of a test order. Test keys only.

        The retry schedule continues; a final decline fails the order.
        """
        require_test_mode(request.scope)
        body = read(request.json_or_empty(), DeclineIn)
        async with self.database.transaction() as tx:
            order = await simulate_decline(
                tx,
                request.scope,
                request.path("order_id"),
                body.code or DeclineCode.CARD_DECLINED,
                now=self.clock(),
                schedule=RetrySchedule(self.settings),
            )
        return self._show(order)

    async def handle_stripe_event(self, request: Request) -> Response:
        """Take an event from Stripe, verified by its signature."""
        if not self.settings.stripe_webhook_secret:
            raise RouteNotFound
        try:
            signature = request.headers.get(b"stripe-signature", b"").decode("latin-1")
            event = verify_event(request.body, signature, self.settings.stripe_webhook_secret)
        except SignatureInvalid as error:
            raise SignatureRefused from error
        if await handle_stripe_event(self.database, event, self.clock()):
            self.notifier.notify()
        return json_response(HeardOut())

    def _show(self, order: Order) -> Response:
        """Call it after the commit: another job, or a webhook, has the next step."""
        self.notifier.notify()
        return Response(order_document(order))
