"""HTTP endpoints of card payments: the test helpers and Stripe's webhook."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
import structlog

from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.charge_store import make_due_any_account
from tonne.money.cards.charges import FindBilled, SimulatePayment
from tonne.money.cards.errors import SignatureRefused
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.gateways.stripe_events import SignatureInvalid, StripeEvent, is_signed, verify_event
from tonne.money.cards.model import DeclineCode, RetrySchedule
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import RouteNotFound, require_test_mode
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import work_after
from tonne.selling.orders.schemas import order_document

_MONEY_BACK = ("charge.dispute.", "charge.refund", "refund.")
# Disputes, refunds and reviews need a person's attention.
_NEEDS_ATTENTION = (*_MONEY_BACK, "review.")

_log = structlog.get_logger()


async def handle_stripe_event(database: Database, event: StripeEvent, now: datetime) -> bool:
    """Make the charge that the event names due, so that a worker looks it up. Returns whether a charge became due.

    Nothing else in the event is used, so handling it twice is harmless. Of a captured charge, the worker reads refunds
    and disputes.
    """
    if event.mode is not Mode.LIVE:
        # All charges at Stripe are of live orders: the webhook was created in Stripe's test mode.
        _log.warning("stripe_event_of_test_mode", event_id=event.id, event_type=event.type, charge_id=event.charge_id)
        return False
    made_due = False
    if event.charge_id is not None and "\x00" not in event.charge_id:
        made_due = await database.run(make_due_any_account, event.charge_id, "stripe", now)
    if event.reference is not None and "\x00" not in event.reference and event.type.startswith(_MONEY_BACK):
        async with database.connection() as connection:
            made_due |= await request_checks_any_account(connection, "stripe", [event.reference], now) > 0
    log = _log.warning if event.type.startswith(_NEEDS_ATTENTION) else _log.info
    log(
        "stripe_event",
        event_id=event.id,
        event_type=event.type,
        charge_id=event.charge_id,
        reference=event.reference,
        made_due=made_due,
    )
    return made_due


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
            event = verify_event(request.body, _signature_of(request), self.settings.stripe_webhook_secret)
        except SignatureInvalid as error:
            raise SignatureRefused from error
        if await handle_stripe_event(self.database, event, self.clock()):
            self.notifier.notify(WorkKind.LIVE_CHARGES, WorkKind.REFUNDS)
        return json_response(StripeEventOut())

    def find_payer(self, request: Request) -> str | None:
        """Stripe's own share of a busy process, which forged events cannot use up, wherever they come from."""
        secret = self.settings.stripe_webhook_secret
        return "stripe" if secret and is_signed(request.body, _signature_of(request), secret) else None

    @property
    def _simulation(self) -> SimulatePayment:
        gateway, schedule = self.gateways["simulated"], RetrySchedule(self.settings)
        return SimulatePayment(self.database, gateway, self.find_billed, self.clock, schedule)

    def _respond(self, order: Order) -> Response:
        self.notifier.notify(*work_after(order), WorkKind.CARD_PROBLEMS, WorkKind.ORDER_MAILS, scope=order.scope)
        return Response(order_document(order))


def _signature_of(request: Request) -> str:
    return request.headers.get(b"stripe-signature", b"").decode("latin-1")
