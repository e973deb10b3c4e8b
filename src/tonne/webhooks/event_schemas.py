"""Events as webhooks deliver them and `GET /v1/events` lists them. `events/log.py` composes their JSON."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.http.openapi import EventDescription, WebhookDescription
from tonne.orders.model import OrderStatus, PaymentState
from tonne.orders.schemas import COMPLETE_EXAMPLE, RETIRING_EXAMPLE, UNPRICED_EXAMPLE, OrderOut


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
    WEBHOOK_TEST = "webhook.test"


class OrderEventDataOut(msgspec.Struct):
    order: Annotated[OrderOut, Meta(description="The order as it was after the event.")]


class WebhookTestDataOut(msgspec.Struct):
    message: Annotated[str, Meta(description="For people.", examples=["This is a test of your webhook."])]


class _AnyEvent(msgspec.Struct, tag_field="event_type"):
    api_version: Annotated[str, Meta(description="Version of the format.", examples=["v1"])]
    event_id: Annotated[str, Meta(description="Id of the event.", examples=["evt_06gtv1alff3htg9thvlvj59t20"])]
    account_id: Annotated[str, Meta(description="Account of the event.", examples=["acc_06gtv1alff3htg9thvlvj59t20"])]
    sequence: Annotated[
        str,
        Meta(
            description="Increases strictly within an account. A timestamp in milliseconds.",
            examples=["2026-11-15T10:00:00.123Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ]


class _OrderEvent(_AnyEvent):
    data: Annotated[OrderEventDataOut, Meta(description="The subject of the event.")]


class OrderReceivedEvent(_OrderEvent, tag=EventType.ORDER_RECEIVED.value):
    """An order was received.

    It has no price yet.
    """


class OrderPlacedEvent(_OrderEvent, tag=EventType.ORDER_PLACED.value):
    """An order was placed.

    Its bundles are assigned and its price is fixed. It waits for the payment.
    """


class OrderPaidEvent(_OrderEvent, tag=EventType.ORDER_PAID.value):
    """An order was paid.

    Its card was charged or its invoice was settled. It waits for supply.
    """


class OrderRetiringEvent(_OrderEvent, tag=EventType.ORDER_RETIRING.value):
    """Supply was allocated to an order.

    Its projects are set, and their credits are retired at the registries.
    """


class OrderCancelledEvent(_OrderEvent, tag=EventType.ORDER_CANCELLED.value):
    """An order was cancelled.

    By you, by an operator, or because its invoice stayed unpaid.
    """


class OrderFailedEvent(_OrderEvent, tag=EventType.ORDER_FAILED.value):
    """An order failed.

    Its card was declined for good, or no price was found in time.
    """


class OrderCompletedEvent(_OrderEvent, tag=EventType.ORDER_COMPLETED.value):
    """An order was completed.

    All its credits are retired, and its certificate is available.
    """


class OrderPaymentUpdatedEvent(_OrderEvent, tag=EventType.ORDER_PAYMENT_UPDATED.value):
    """The payment of an order changed, but not its status.

    An order that was fulfilled on credit was paid, the account reached its credit limit (`hold_reason`), money was
    refunded, or the payment was disputed. Compare `payment_state`, `refunded_amount` and `hold_reason`.
    """


class WebhookTestEvent(_AnyEvent, tag=EventType.WEBHOOK_TEST.value):
    """You asked for a test event.

    `POST /v1/webhooks/{webhook_id}/test` sends it. It is not in the event log.
    """

    data: Annotated[WebhookTestDataOut, Meta(description="Not about an order.")]


WebhookEvent = (
    OrderReceivedEvent
    | OrderPlacedEvent
    | OrderPaidEvent
    | OrderRetiringEvent
    | OrderCancelledEvent
    | OrderFailedEvent
    | OrderCompletedEvent
    | OrderPaymentUpdatedEvent
    | WebhookTestEvent
)


class WebhookDeliveryOut(msgspec.Struct):
    """The body of a request to a receiver."""

    events: Annotated[list[WebhookEvent], Meta(description="In the order in which they occurred in each account.")]


def _order_event(shape: type[_OrderEvent], **order: Any) -> EventDescription:
    return EventDescription(str(shape.__struct_config__.tag), shape, {"data": {"order": order}})


WEBHOOKS = WebhookDescription(
    WebhookDeliveryOut,
    WebhookEvent,
    [
        _order_event(OrderReceivedEvent, status=OrderStatus.RECEIVED, **UNPRICED_EXAMPLE),
        _order_event(OrderPlacedEvent, status=OrderStatus.PLACED),
        _order_event(OrderPaidEvent, status=OrderStatus.PAID),
        _order_event(OrderRetiringEvent, **RETIRING_EXAMPLE),
        _order_event(OrderCancelledEvent, status=OrderStatus.CANCELLED),
        _order_event(OrderFailedEvent, status=OrderStatus.FAILED, **UNPRICED_EXAMPLE),
        _order_event(OrderCompletedEvent, **COMPLETE_EXAMPLE),
        _order_event(OrderPaymentUpdatedEvent, payment_state=PaymentState.PAID, **COMPLETE_EXAMPLE),
        EventDescription(EventType.WEBHOOK_TEST, WebhookTestEvent, {}),
    ],
)
