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


# What a webhook can name. A test event is sent on request only, to any webhook.
NAMEABLE = tuple(each for each in EventType if each is not EventType.WEBHOOK_TEST)
# The seven types that report the status of an order: what a webhook gets that names none.
STATUS_TYPES = tuple(each.value for each in NAMEABLE[:7])
# What webhooks get that were registered before types could be named: all types of that time.
EARLIER_TYPES = tuple(each.value for each in NAMEABLE[:9])


def delivered_types(named: tuple[str, ...] | None) -> tuple[str, ...]:
    """The types that a webhook gets. None if it was registered before types could be named."""
    if named is None:
        return EARLIER_TYPES
    return named or STATUS_TYPES


def in_order(named: Iterable[str]) -> tuple[str, ...]:
    """Without repetitions, in the order of the documentation."""
    given = set(named)
    return tuple(each.value for each in EventType if each.value in given)


def _array(types: Iterable[str]) -> str:
    quoted = ", ".join(f"'{each}'" for each in types)
    return f"ARRAY[{quoted}]"


def types_of(row: str) -> str:
    """An SQL expression: `delivered_types` of a row with `event_types`."""
    named = f"{row}.event_types"
    return (
        f"CASE WHEN {named} IS NULL THEN {_array(EARLIER_TYPES)} "
        f"WHEN {named} = '{{}}' THEN {_array(STATUS_TYPES)} ELSE {named} END"
    )
