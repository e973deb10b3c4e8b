"""Which work a change of an order makes due."""

from tonne.platform.events.notification import WorkKind
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order, OrderStatus


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
