"""HTTP endpoints of card payments: the test helpers and Stripe's webhook."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from tonne.money.cards.charges import FindBilled
from tonne.money.cards.errors import SignatureRefused
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.gateways.stripe_events import SignatureInvalid, verify_event
from tonne.money.cards.handle_stripe_event import handle_stripe_event
from tonne.money.cards.model import DeclineCode, RetrySchedule
from tonne.money.cards.simulate_payment import SimulatePayment
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import RouteNotFound, require_test_mode
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.orders.due_work import work_after
from tonne.selling.orders.model import Order
from tonne.selling.orders.schemas import order_document


class DeclineIn(msgspec.Struct, forbid_unknown_fields=True):
    code: Annotated[
        DeclineCode | None,
        msgspec.Meta(
            description="The decline code of the simulated bank; `card_declined` by default.",
            examples=["insufficient_funds"],
        ),
    ] = None


class PayIn(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class StripeEventIn(msgspec.Struct):
    """An event in Stripe's format. `money/cards/gateways/stripe_events.py` verifies and parses its bytes."""


class StripeEventOut(msgspec.Struct):
    received: Annotated[bool, msgspec.Meta(description="Always true.", examples=[True])] = True


class CardEndpoints(msgspec.Struct, frozen=True):
    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    settings: Settings
    notifier: Notifier
    find_billed: FindBilled

    async def pay_test_order(self, request: Request) -> Response:
        """Pay a test order by card.

        Charges a simulated card that works, whichever card the account has stored. Test keys only.
        """
        require_test_mode(request.scope)
        read(request.json_or_empty(), PayIn)
        return self._respond(await self._simulation.pay(request.scope, request.path("order_id")))

    async def decline_test_order(self, request: Request) -> Response:
        """Decline the card of a test order.

        Records one declined attempt. The order is charged again according to the retry schedule, or fails after a final
        decline. With `authentication_required` it waits for the payer's confirmation, which the `pay` helper gives.
        Test keys only.
        """
        require_test_mode(request.scope)
        body = read(request.json_or_empty(), DeclineIn)
        code = body.code or DeclineCode.CARD_DECLINED
        return self._respond(await self._simulation.decline(request.scope, request.path("order_id"), code))

    async def handle_stripe_event(self, request: Request) -> Response:
        """Receive an event from Stripe.

        The signature of the event is verified, and the charge that it names is looked up at Stripe.
        """
        if not self.settings.stripe_webhook_secret:
            raise RouteNotFound
        try:
            signature = request.headers.get(b"stripe-signature", b"").decode("latin-1")
            event = verify_event(request.body, signature, self.settings.stripe_webhook_secret)
        except SignatureInvalid as error:
            raise SignatureRefused from error
        if await handle_stripe_event(self.database, event, self.clock()):
            self.notifier.notify(WorkKind.LIVE_CHARGES, WorkKind.REFUNDS)
        return json_response(StripeEventOut())

    @property
    def _simulation(self) -> SimulatePayment:
        gateway, schedule = self.gateways["simulated"], RetrySchedule(self.settings)
        return SimulatePayment(self.database, gateway, self.find_billed, self.clock, schedule)

    def _respond(self, order: Order) -> Response:
        self.notifier.notify(*work_after(order), WorkKind.CARD_PROBLEMS, WorkKind.ORDER_MAILS, scope=order.scope)
        return Response(order_document(order))
