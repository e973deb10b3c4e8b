"""The types of events, and which of them a webhook gets."""

from collections.abc import Iterable
from enum import StrEnum


class EventType(StrEnum):
    """New types may be added: ignore those that you do not know."""

    ORDER_RECEIVED = "order.received"
    ORDER_PLACED = "order.placed"
    ORDER_PAID = "order.paid"
    ORDER_RETIRING = "order.retiring"
    ORDER_CANCELLED = "order.cancelled"
    ORDER_FAILED = "order.failed"
    ORDER_COMPLETED = "order.completed"
    ORDER_PAYMENT_UPDATED = "order.payment_updated"
    ORDER_PERSON_ERASED = "order.person_erased"
    ALLOCATION_NEW = "allocation.new"
    ALLOCATION_RETIRED = "allocation.retired"
    INVOICE_ISSUED = "invoice.issued"
    INVOICE_OVERDUE = "invoice.overdue"
    INVOICE_PAID = "invoice.paid"
    INVOICE_CREDITED = "invoice.credited"
    INVOICE_CANCELLED = "invoice.cancelled"
    REFUND_REQUESTED = "refund.requested"
    REFUND_SUCCEEDED = "refund.succeeded"
    REFUND_FAILED = "refund.failed"
    REFUND_CANCELLED = "refund.cancelled"
    CERTIFICATE_REPLACED = "certificate.replaced"
    WEBHOOK_TEST = "webhook.test"


# The types that a webhook can name. A test event is sent on request only, to any webhook.
NAMEABLE = tuple(each for each in EventType if each is not EventType.WEBHOOK_TEST)
# The seven types that report the status of an order. A webhook that names no types gets these.
STATUS_TYPES = tuple(each.value for each in NAMEABLE[:7])


def delivered_types(named: tuple[str, ...]) -> tuple[str, ...]:
    """The types that a webhook gets which names these."""
    return named or STATUS_TYPES


def in_order(named: Iterable[str]) -> tuple[str, ...]:
    """Without repetitions, in the order of the documentation."""
    given = set(named)
    return tuple(each.value for each in EventType if each.value in given)


def types_of(row: str) -> str:
    """An SQL expression: `delivered_types` of a row with `event_types`."""
    status_types = ", ".join(f"'{each}'" for each in STATUS_TYPES)
    return f"CASE WHEN {row}.event_types = '{{}}' THEN ARRAY[{status_types}] ELSE {row}.event_types END"
