"""A new charge for an order: written before the gateway is asked, so that a crash leaves a trace to follow."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.gateways.card import Card, ChargeRequest
from tonne.orders.load_orders import OrderKey, postpone
from tonne.orders.model import OrderStatus
from tonne.payments import card_store as store
from tonne.payments.model import Attempt

# Which gateway takes the money of each mode.
GATEWAY_OF: dict[Mode, str] = {Mode.LIVE: "stripe", Mode.TEST: "simulated"}
# Of an account that has none. It never gets to a gateway: see `charge_cards.py`.
NO_CARD = Card("", "")


@dataclass(slots=True)
class Opened:
    """What became of the orders: those with a new charge, those that cost nothing, those that have an open charge."""

    attempts: list[Attempt] = field(default_factory=list)
    free: list[OrderKey] = field(default_factory=list)
    open_already: list[OrderKey] = field(default_factory=list)


async def open_charges(
    tx: Connection, keys: Sequence[OrderKey], now: datetime, held_until: datetime, *, card: Card | None = None
) -> Opened:
    """Write a pending charge for each of these placed orders, whose rows are held; `card` instead of the account's own.

    From here on it is the charge that comes up again, not its order: at `held_until` at the latest somebody asks the
    gateway what came of it. An order that needs no charge comes up again itself.
    """
    opened = Opened()
    numbered: list[tuple[Attempt, int]] = []
    for row in await store.read_to_charge(tx, keys):
        key = OrderKey(row.account_id, row.order_id)
        if row.is_open:
            opened.open_already.append(key)
        elif row.amount_minor == 0:
            opened.free.append(key)
        else:
            numbered.append((_attempt(row, card, now), row.attempts + 1))
    opened.attempts = [attempt for attempt, _ in numbered]
    if numbered:
        await store.insert_charges(tx, numbered, now, held_until)
    waiting = [OrderKey(attempt.request.account_id, attempt.request.order_id) for attempt in opened.attempts]
    if waiting or opened.open_already:
        await postpone(tx, [*waiting, *opened.open_already], OrderStatus.PLACED, None)
    if opened.free:
        await postpone(tx, opened.free, OrderStatus.PLACED, held_until)
    return opened


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
