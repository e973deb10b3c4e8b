"""Collect orders for consolidated invoices, and fulfil orders on credit.

Orders that are too small for a card payment are collected, too: see `small_orders.py`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import structs

from tonne.money.invoices.issuing import billing_store, credit_limit_store
from tonne.money.invoices.issuing.billing_store import TEST_PAUSE, BillingSettings, GroupKey, UnbilledOrder
from tonne.money.invoices.issuing.joining_store import list_to_join_any_account
from tonne.money.invoices.model import InvoiceBilling, client_reference
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import Billing, Fulfil, PaymentMethod
from tonne.selling.orders.model import Order, OrderKey, OrderStatus
from tonne.selling.orders.move_order import Transitions
from tonne.selling.orders.queue import lock_orders

# Orders of the last minutes of a month may still wait for a worker when the next one begins.
GRACE = timedelta(minutes=15)


def is_billed_together(order: Order) -> bool:
    """Decided when it was priced: its tax is computed with that of the other orders of its invoice."""
    return order.priced is not None and order.tax.tax_minor is None


def start_of_month(moment: datetime) -> datetime:
    """In UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end_after(moment: datetime) -> datetime:
    """When the orders of the month of `moment` are billed."""
    return start_of_month(start_of_month(moment) + timedelta(days=32)) + GRACE


async def collect_orders(
    tx: Connection,
    orders: Sequence[Order],
    settings: Mapping[str, BillingSettings],
    now: datetime,
    *,
    service: Settings,
) -> None:
    """Let locked orders wait for a consolidated invoice. Those that wait already stay where they are."""
    waiting = await billing_store.find_waiting(tx, [order.key for order in orders])
    groups: dict[GroupKey, list[Order]] = defaultdict(list)
    for order in orders:
        if order.id not in waiting:
            groups[_group_key(order, settings[order.scope.account_id], service)].append(order)
    rows: list[UnbilledOrder] = []
    for key in sorted(groups):
        costs = [order.exact_cost for order in groups[key]]
        closes_at = min(_month_end(order, now) for order in groups[key])
        if key.billing is InvoiceBilling.COLLECTED and key.mode is Mode.TEST:
            closes_at = now + TEST_PAUSE
        group_id = await billing_store.add_to_group_any_account(tx, key, costs, now=now, closes_at=closes_at)
        rows.extend(_unbilled(order, group_id) for order in groups[key])
    if rows:
        await billing_store.insert_unbilled(tx, rows)


async def put_off(tx: Connection, orders: Sequence[Order]) -> None:
    """Locked orders, fulfilled first, can be cancelled without a refund: they join their collection afterwards."""
    for order in orders:
        # It may have joined while it was placed.
        await billing_store.remove_unbilled(tx, order)
    await billing_store.insert_unbilled(tx, [_unbilled(order, None) for order in orders])


async def join_collections(tx: Connection, keys: Sequence[OrderKey], now: datetime, *, service: Settings) -> None:
    """Let those of these orders wait for a consolidated invoice that could be cancelled until now."""
    orders = await lock_orders(tx, keys)
    found = [orders[key.id] for key in await list_to_join_any_account(tx, now, len(keys), among=keys)]
    if found:
        await billing_store.remove_billed(tx, [order.key for order in found])
        settings = await billing_store.find_billing_settings(tx, found)
        await collect_orders(tx, found, settings, now, service=service)


def joins_at(order: Order) -> datetime:
    """The wait of an order that is still placed begins with its payment: after it is billed."""
    return order.created_at if order.status is OrderStatus.PLACED else order.fulfil_after or order.created_at


def _month_end(order: Order, now: datetime) -> datetime:
    """If the month of the order was billed already, it is billed with the current month."""
    month_end = month_end_after(joins_at(order))
    return month_end if month_end > now else month_end_after(now)


def is_collected(order: Order, settings: BillingSettings) -> bool:
    """Of an order that is billed together: whether that is because a card cannot pay so little."""
    return order.payment_method is PaymentMethod.CARD and settings.billing is Billing.PER_ORDER


def _group_key(order: Order, settings: BillingSettings, service: Settings) -> GroupKey:
    """An account that is billed per order since the order was placed gets one more invoice, at the end of the month."""
    scope, billing, threshold_minor = order.scope, InvoiceBilling.MONTHLY, 0
    if settings.billing is Billing.THRESHOLD:
        billing, threshold_minor = InvoiceBilling.THRESHOLD, settings.billing_threshold_minor or 0
    elif is_collected(order, settings):
        billing, threshold_minor = InvoiceBilling.COLLECTED, service.collect_at_minor(order.currency)
    # A card pays for its own account only.
    payer = scope.account_id if order.payment_method is PaymentMethod.CARD else ""
    return GroupKey(scope.organisation_id, scope.mode, order.currency, billing, threshold_minor, payer)


def _unbilled(order: Order, group_id: str | None) -> UnbilledOrder:
    if order.priced is None:
        raise LookupError(f"order {order.id} has no price")
    return UnbilledOrder(
        account_id=order.scope.account_id,
        order_id=order.id,
        group_id=group_id,
        reference=client_reference(order),
        placed_at=order.created_at,
        joins_at=joins_at(order),
        quantity_grams=order.priced.quantity_grams,
        total_minor=order.priced.total_cost_minor,
        exact_cost=order.exact_cost,
        exact_fee=order.exact_fee,
    )


async def grant_credit(
    tx: Connection, orders: Sequence[Order], settings: Mapping[str, BillingSettings], now: datetime
) -> tuple[list[Transitions], list[Order]]:
    """Which of these locked placed orders are fulfilled before they are paid, and which would exceed the limit.

    The caller moves the first, and postpones the second. Orders of accounts without credit are in neither, and those
    that a card pays.
    """
    asking = [
        order
        for order in orders
        if settings[order.scope.account_id].fulfil is Fulfil.ON_ORDER and order.payment_method is PaymentMethod.INVOICE
    ]
    if not asking:
        return [], []
    accounts = {order.scope.account_id for order in asking}
    await credit_limit_store.lock_credit(tx, accounts)
    used = defaultdict(int, await credit_limit_store.sum_on_credit_any_account(tx, accounts, PaymentMethod.INVOICE))
    granted, above = [], []
    for order in sorted(asking, key=lambda each: (each.created_at, each.id)):
        account_id = order.scope.account_id
        due = _due(order)
        if used[account_id] + due <= _limit(settings[account_id]):
            used[account_id] += due
            fulfilled = structs.replace(order, status=OrderStatus.PAID).with_window(now)
            granted.append(Transitions(order, [fulfilled], order.due_at(now)))
        else:
            above.append(order)
    return granted, above


async def is_above_credit_limit(connection: Connection, order: Order) -> bool:
    """Whether a placed order would be fulfilled now if its account had not reached its credit limit."""
    if order.payment_method is not PaymentMethod.INVOICE:
        return False
    settings = (await billing_store.find_billing_settings(connection, [order]))[order.scope.account_id]
    if settings.fulfil is not Fulfil.ON_ORDER:
        return False
    account_id = order.scope.account_id
    used = (await credit_limit_store.sum_on_credit_any_account(connection, [account_id], PaymentMethod.INVOICE)).get(
        account_id, 0
    )
    return used + _due(order) > _limit(settings)


def _due(order: Order) -> int:
    """In millionths of a minor unit, as the sum of what is fulfilled on credit."""
    return order.exact_cost if order.amount_due_minor is None else order.amount_due_minor * GRAMS_PER_TONNE


def _limit(settings: BillingSettings) -> int:
    return (settings.credit_limit_minor or 0) * GRAMS_PER_TONNE
