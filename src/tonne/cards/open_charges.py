"""A new charge for an order: written before the gateway is asked, so that a crash leaves a trace to follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.cards import store
from tonne.cards.model import Attempt
from tonne.db.pool import Connection
from tonne.gateways.card import Card, ChargeRequest
from tonne.orders.model import OrderKey
from tonne.orders.queue import schedule_payment

# Which gateway takes the money of each mode.
GATEWAY_OF: dict[Mode, str] = {Mode.LIVE: "stripe", Mode.TEST: "simulated"}
# Of an account that has none. It never gets to a gateway: see `charge_cards.py`.
NO_CARD = Card("", "")


@dataclass(frozen=True, slots=True)
class Opened:
    """New charges, and the orders that need none because they cost nothing."""

    attempts: list[Attempt]
    free: list[OrderKey]


async def open_charges(
    tx: Connection, orders: Sequence[store.ToCharge], now: datetime, held_until: datetime, *, card: Card | None = None
) -> Opened:
    """Write a pending charge for each of these locked orders that has no open one; `card` replaces the account's own.

    From here on the charge is due, not its order: at `held_until` a job asks the gateway for its result. An order that
    costs nothing gets no charge, and is itself due again at `held_until`.
    """
    free = [order.key for order in orders if order.amount_minor == 0]
    await schedule_payment(tx, {order.key: held_until if order.amount_minor == 0 else None for order in orders})
    numbered = [
        (_attempt(order, card, now), order.attempts + 1)
        for order in orders
        if order.amount_minor > 0 and not order.is_open
    ]
    written = await store.insert_charges(tx, numbered, now, held_until) if numbered else set()
    return Opened([attempt for attempt, _ in numbered if attempt.request.id in written], free)


def _attempt(row: store.ToCharge, card: Card | None, now: datetime) -> Attempt:
    mode = Mode(row.mode)
    gateway = GATEWAY_OF[mode]
    if card is None:
        card = NO_CARD
        if row.gateway is not None and row.customer is not None and row.method is not None:
            gateway, card = row.gateway, Card(row.customer, row.method)
    request = ChargeRequest(
        id=new_id("chg"),
        order_id=row.order_id,
        account_id=row.account_id,
        mode=mode,
        amount_minor=row.amount_minor,
        currency=row.currency,
        card=card,
        description=store.describe_order(row.order_id),
    )
    return Attempt(row.organisation_id, gateway, request, now, is_new=True)
