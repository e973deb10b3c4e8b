"""Lock, claim and schedule orders. With `store.py` and `window_store.py`, all that writes or locks the table `orders`.

An order is due when `next_attempt_at` is in the past; NULL means that no job has to look at it. All locks have the
strength that the UPDATE itself takes, FOR NO KEY UPDATE: nothing changes the key of an order, and rows that refer to
one (lines, charges, invoices) can still be inserted meanwhile. Statements that lock several orders sort them by
(account_id, id), or skip locked ones: two transactions then never wait for each other.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from tonne.platform.db.batches import RETRY_AFTER, run_claimed
from tonne.platform.db.database import Connection, Database, columns
from tonne.platform.events.notification import WorkKind
from tonne.platform.values.context import Clock, Mode, Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.load import load_order, load_orders, require_order
from tonne.selling.orders.model import HoldReason, Order, OrderKey, OrderStatus

Result = TypeVar("Result")

LOCK_ORDERS = """
SELECT true FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
ORDER BY orders.account_id, orders.id FOR NO KEY UPDATE OF orders
"""


async def lock_keys(tx: Connection, keys: Sequence[OrderKey]) -> None:
    """Lock orders without loading them, which may be many."""
    await tx.execute(LOCK_ORDERS, *columns(keys, "account_id, id"))


async def lock_order(tx: Connection, scope: Scope, order_id: str) -> Order | None:
    """Lock an order until the transaction ends, and return it as it is then."""
    await lock_keys(tx, [OrderKey(scope.account_id, order_id)])
    return await load_order(tx, scope, order_id)


async def require_locked_order(tx: Connection, scope: Scope, order_id: str) -> Order:
    """Like `lock_order`. Raises OrderNotFound."""
    await lock_keys(tx, [OrderKey(scope.account_id, order_id)])
    return await require_order(tx, scope, order_id)


async def lock_orders(tx: Connection, keys: Sequence[OrderKey]) -> dict[str, Order]:
    """Lock several orders; returns them by id."""
    await lock_keys(tx, keys)
    return {order.id: order for order in await load_orders(tx, list(dict.fromkeys(keys)))}


CLAIM_DUE = """
SELECT account_id, id, next_attempt_at FROM orders
WHERE status = $1 AND mode = $2 AND next_attempt_at <= $3 AND ($5::text IS NULL OR payment_method = $5)
  AND ($6::boolean IS NULL OR (tax_minor IS NULL) = $6)
ORDER BY next_attempt_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
"""


async def claim_due(
    tx: Connection,
    status: OrderStatus,
    mode: Mode,
    now: datetime,
    *,
    limit: int,
    payment_method: PaymentMethod | None = None,
    is_untaxed: bool | None = None,
) -> list[OrderKey]:
    """Lock due orders that no other transaction has locked. Those that have been due for the longest come first.

    Orders that are due at the same moment come in the order in which they were placed, and so get their numbers.
    `is_untaxed`: whether their tax is not known yet, as of placed orders that wait for a consolidated invoice.
    """
    rows = await tx.fetch(CLAIM_DUE, status, mode, now, limit, payment_method, is_untaxed)
    oldest_first = sorted(rows, key=lambda row: (row["next_attempt_at"], row["id"]))
    return [OrderKey(row["account_id"], row["id"]) for row in oldest_first]


async def run_due(
    database: Database,
    clock: Clock,
    status: OrderStatus,
    mode: Mode,
    handle: Callable[[Connection, Sequence[OrderKey], datetime], Awaitable[Result]],
    *,
    limit: int,
    failure_event: str,
    payment_method: PaymentMethod | None = None,
    is_untaxed: bool | None = None,
    retry_after: timedelta = RETRY_AFTER,
    on_commit: Callable[[Result], object] | None = None,
) -> bool:
    """Claim a batch of due orders and handle it, as `run_claimed` does; false if none is due."""

    async def claim(tx: Connection, count: int) -> list[OrderKey]:
        return await claim_due(
            tx, status, mode, clock(), limit=count, payment_method=payment_method, is_untaxed=is_untaxed
        )

    return await run_claimed(
        database,
        claim,
        lambda tx, keys: handle(tx, keys, clock()),
        lambda tx, keys: postpone(tx, keys, status, clock() + retry_after),
        limit=limit,
        failure_event=failure_event,
        describe=lambda key: {"order_id": key.id},
        on_commit=on_commit,
    )


POSTPONE = """
UPDATE orders SET next_attempt_at = $4
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE orders.account_id = keys.account_id AND orders.id = keys.id AND orders.status = $3
"""


async def postpone(tx: Connection, keys: Sequence[OrderKey], status: OrderStatus, until: datetime | None) -> None:
    """Make these locked orders due at `until`, if they still have `status`; None: not until something wakes them."""
    await tx.execute(POSTPONE, *columns(keys, "account_id, id"), status, until)


SCHEDULE_PAYMENT = """
UPDATE orders SET next_attempt_at = payment.at
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS payment (account_id, id, at)
WHERE orders.account_id = payment.account_id AND orders.id = payment.id AND orders.status = 'placed'
"""


async def schedule_payment(tx: Connection, moments: Mapping[OrderKey, datetime | None]) -> None:
    """When the next payment attempt of each of these placed orders is due; None: not until something wakes it."""
    await tx.execute(SCHEDULE_PAYMENT, *columns(list(moments), "account_id, id"), list(moments.values()))


WAKE_RETIRING = """
UPDATE orders SET next_attempt_at = $3
WHERE (account_id, id) IN (
    SELECT orders.account_id, orders.id FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
    JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
    WHERE orders.status = 'retiring' ORDER BY orders.account_id, orders.id FOR NO KEY UPDATE OF orders)
"""


async def wake_retiring(tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
    """Make those of these orders that are retiring due: their last gram may be retired now."""
    await tx.execute(WAKE_RETIRING, *columns(keys, "account_id, id"), now)


# Not those that a customer pays at checkout: they wait for the customer.
WAKE_WAITING = """
UPDATE orders SET next_attempt_at = $2
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE account_id = $1 AND next_attempt_at IS NULL
      AND (status = 'paid' OR status = 'placed' AND offset_link_id IS NULL)
    ORDER BY account_id, id FOR NO KEY UPDATE)
"""


async def wake_waiting(tx: Connection, scope: Scope, now: datetime) -> None:
    """Make the orders of an account due that wait for the test helpers. Orders with an open charge stay as they are."""
    await tx.execute(WAKE_WAITING, scope.account_id, now)


WAKE_HELD = """
UPDATE orders SET next_attempt_at = $3
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE organisation_id = $4 AND mode = $5 AND account_id = $1 AND status = 'placed' AND hold_reason = $2
    ORDER BY account_id, id FOR NO KEY UPDATE SKIP LOCKED)
"""


async def wake_held(tx: Connection, scope: Scope, reason: HoldReason, now: datetime) -> None:
    """Make those placed orders of an account due that wait for this reason, but for those that are being processed."""
    await tx.execute(WAKE_HELD, scope.account_id, reason, now, scope.organisation_id, scope.mode)


NOTE_DISPUTE = """
UPDATE orders SET has_open_dispute = $3 WHERE account_id = $1 AND id = $2 AND has_open_dispute <> $3
"""


async def note_dispute(tx: Connection, order: Order, *, is_open: bool) -> None:
    """Of the payment of a locked order. While a dispute is open, the order's credits are not retired."""
    await tx.execute(NOTE_DISPUTE, order.scope.account_id, order.id, is_open)


LIST_RETIRING = "SELECT id FROM orders WHERE account_id = $1 AND status = 'retiring' ORDER BY id"


async def list_retiring(connection: Connection, scope: Scope) -> list[str]:
    """The ids of the account's orders whose credits are being retired."""
    return [row["id"] for row in await connection.fetch(LIST_RETIRING, scope.account_id)]


# Their due time becomes the time of the payment, so that the order that was paid first is served first.
WAKE_SHORT = """
UPDATE orders SET next_attempt_at = status_changed_at
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE mode = $1 AND status = 'paid' AND next_attempt_at IS NOT NULL AND next_attempt_at > status_changed_at
    ORDER BY account_id, id FOR NO KEY UPDATE)
"""


async def wake_all_short(tx: Connection, mode: Mode) -> None:
    """Make paid orders that wait for supply due now. Call it first: orders are locked before lots."""
    await tx.execute(WAKE_SHORT, mode)


WAKE_PAID = """
UPDATE orders SET next_attempt_at = status_changed_at WHERE account_id = $1 AND id = $2 AND status = 'paid'
"""


async def wake_paid(tx: Connection, order: Order) -> None:
    """Have supply allocated to a locked paid order that was held."""
    await tx.execute(WAKE_PAID, order.scope.account_id, order.id)


WAKE_SHORT_OF_ACCOUNT = """
UPDATE orders SET next_attempt_at = status_changed_at
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE account_id = $1 AND mode = $2 AND status = 'paid' AND next_attempt_at > status_changed_at
    ORDER BY account_id, id FOR NO KEY UPDATE)
"""


async def wake_short(tx: Connection, scope: Scope) -> None:
    """Make the account's paid orders that wait for supply due now."""
    await tx.execute(WAKE_SHORT_OF_ACCOUNT, scope.account_id, scope.mode)


def charges_in(mode: Mode) -> WorkKind:
    return WorkKind.LIVE_CHARGES if mode is Mode.LIVE else WorkKind.TEST_CHARGES


def work_after(order: Order) -> tuple[WorkKind, ...]:
    """The order has got its current status and an event. An order that no worker advances causes only the event."""
    is_due = order.due_at(order.created_at) is not None
    match order.status:
        case OrderStatus.COMPLETE:
            return WorkKind.EVENTS, WorkKind.CERTIFICATES
        case _ if not is_due:
            return (WorkKind.EVENTS,)
        case OrderStatus.PLACED if order.payment_method is PaymentMethod.CARD and order.tax.tax_minor is not None:
            return WorkKind.EVENTS, charges_in(order.scope.mode)
        case OrderStatus.PLACED:
            return WorkKind.EVENTS, WorkKind.UNINVOICED_ORDERS
        case OrderStatus.PAID | OrderStatus.RETIRING:
            return WorkKind.EVENTS, WorkKind.PAID_ORDERS
        # Received orders are priced after a pause.
        case OrderStatus.RECEIVED | OrderStatus.CANCELLED | OrderStatus.FAILED:
            return (WorkKind.EVENTS,)
