"""Open a charge for an order: Tonne records a charge before it calls the gateway."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from tonne.money.cards.charge_store import ChargeableOrder, insert_charges
from tonne.money.cards.model import ChargeAttempt
from tonne.platform.db.database import Connection
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import schedule_payment


class OpenedCharges(Struct, frozen=True):
    """New charges, and the zero-total orders, which need none."""

    attempts: list[ChargeAttempt]
    free: list[OrderKey]

    def __bool__(self) -> bool:
        return bool(self.attempts or self.free)


class FindBilled(Protocol):
    """The ids of those orders that are on an invoice. `invoices` comes after this package, so it is passed in."""

    async def __call__(self, tx: Connection, keys: Sequence[OrderKey]) -> set[str]: ...


async def open_charges(
    tx: Connection,
    orders: Sequence[ChargeableOrder],
    now: datetime,
    held_until: datetime,
    *,
    billed: Collection[str] = (),
) -> OpenedCharges:
    """Insert a pending charge for each of these locked placed orders that has no open charge.

    Orders that are billed together get none: `billed` are those that are on their invoice already. From then on the
    charge is due, not its order: after `held_until` a worker looks it up. A zero-total order gets no charge and is due
    again at `held_until`.
    """
    free = [order.key for order in orders if order.amount_minor == 0]
    await schedule_payment(tx, {order.key: held_until if order.amount_minor == 0 else None for order in orders})
    unpaid = [
        order
        for order in orders
        if order.amount_minor > 0 and not (order.has_open_charge or order.is_untaxed or order.id in billed)
    ]
    return OpenedCharges(await insert_charges(tx, unpaid, now, held_until) if unpaid else [], free)
