"""Events as webhooks deliver them and `GET /v1/events` lists them. `platform/events/log.py` composes their JSON."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.channels.webhooks.model import EventType
from tonne.money.invoices.invoice_events import InvoiceOut
from tonne.money.invoices.model import InvoiceStatus
from tonne.money.refunds.model import RefundState
from tonne.money.refunds.schemas import RefundOut
from tonne.platform.http.openapi.document import EventDescription, WebhookDescription
from tonne.selling.orders import schemas
from tonne.selling.orders.model import OrderStatus, PaymentState
from tonne.supply.certificates.reissue_certificate import ReplacedCertificateOut
from tonne.supply.retirements.allocation_events import AllocationOut, AllocationStatus

_ORDER_AFTER = Meta(description="The order as it was after the event.")


class OrderEventDataOut(msgspec.Struct):
    order: Annotated[schemas.OrderOut, _ORDER_AFTER]


class WebhookTestDataOut(msgspec.Struct):
    message: Annotated[str, Meta(description="For people.", examples=["This is a test of your webhook."])]
    order: Annotated[schemas.OrderOut, Meta(description="A sample. The order does not exist.")]


class _AnyEvent(msgspec.Struct, tag_field="event_type"):
    api_version: Annotated[str, Meta(description="Version of the format.", examples=["v1"])]
    event_id: Annotated[str, Meta(description="Id of the event.", examples=["evt_06gtv1alff3htg9thvlvj59t20"])]
    account_id: Annotated[str, Meta(description="Account of the event.", examples=["acc_06gtv1alff3htg9thvlvj59t20"])]
    sequence: Annotated[
        str,
        Meta(
            description="Milliseconds; grows with every event of the account.",
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

    An order that was fulfilled on credit was paid, the order is on hold (`hold_reason`), money was
    refunded, or the payment was disputed. Compare `payment_state`, `refunded_amount` and `hold_reason`.
    """


class OrderPersonErasedEvent(_OrderEvent, tag=EventType.ORDER_PERSON_ERASED.value):
    """The data of a person was erased from an order.

    `email`, the name and what `metadata` said about the person are replaced by `erased`, here and in all earlier events
    of the order. Erase your own copies of the data.
    """


class OrderReducedEvent(_OrderEvent, tag=EventType.ORDER_REDUCED.value):
    """A part of a paid order was cancelled, before it was fulfilled.

    `quantity`, costs and `bundles` are the new ones.
    """


class OrderReleasedEvent(_OrderEvent, tag=EventType.ORDER_RELEASED.value):
    """A paid order was released: it no longer waits.

    Only on request, not when its `fulfil_after` passes.
    """


class AllocationEventDataOut(msgspec.Struct):
    allocation: Annotated[AllocationOut, Meta(description="The quantity of a project that the order gets.")]
    order: Annotated[schemas.OrderOut, _ORDER_AFTER]


class InvoiceEventDataOut(msgspec.Struct):
    invoice: Annotated[InvoiceOut, Meta(description="The invoice as it was after the event.")]
    order: Annotated[
        schemas.OrderOut | msgspec.UnsetType,
        Meta(description="The order, if the invoice bills only one. Otherwise this field is left out."),
    ] = msgspec.UNSET


class RefundEventDataOut(msgspec.Struct):
    refund: Annotated[RefundOut, Meta(description="The refund as it was after the event.")]
    order: Annotated[schemas.OrderOut, _ORDER_AFTER]


class CertificateEventDataOut(msgspec.Struct):
    certificate: Annotated[ReplacedCertificateOut, Meta(description="The new certificate.")]
    order: Annotated[schemas.OrderOut, _ORDER_AFTER]


class _AllocationEvent(_AnyEvent):
    data: Annotated[AllocationEventDataOut, Meta(description="The subject of the event, and its order.")]


class AllocationNewEvent(_AllocationEvent, tag=EventType.ALLOCATION_NEW.value):
    """Credits of a project were reserved for an order.

    One event for each project of the order. Also when an order gets other credits, because a lot was invalid.
    """


class AllocationRetiredEvent(_AllocationEvent, tag=EventType.ALLOCATION_RETIRED.value):
    """All credits of an allocation were retired.

    The order is complete once all its allocations are retired.
    """


class _InvoiceEvent(_AnyEvent):
    data: Annotated[InvoiceEventDataOut, Meta(description="The subject of the event.")]


class InvoiceIssuedEvent(_InvoiceEvent, tag=EventType.INVOICE_ISSUED.value):
    """An invoice was issued.

    For one order, or for all orders of a month.
    """


class InvoiceOverdueEvent(_InvoiceEvent, tag=EventType.INVOICE_OVERDUE.value):
    """An invoice is overdue.

    A reminder was sent, because it was not paid by its due date.
    """


class InvoicePaidEvent(_InvoiceEvent, tag=EventType.INVOICE_PAID.value):
    """An invoice was paid.

    So were all its orders.
    """


class InvoiceCreditedEvent(_InvoiceEvent, tag=EventType.INVOICE_CREDITED.value):
    """A credit note was issued for a part of an invoice.

    Compare `amount_due` and `total`.
    """


class InvoiceCancelledEvent(_InvoiceEvent, tag=EventType.INVOICE_CANCELLED.value):
    """An invoice was cancelled.

    Credit notes have left nothing to pay.
    """


class _RefundEvent(_AnyEvent):
    data: Annotated[RefundEventDataOut, Meta(description="The subject of the event, and its order.")]


class RefundRequestedEvent(_RefundEvent, tag=EventType.REFUND_REQUESTED.value):
    """A refund was requested.

    It waits for an approval, or is about to be sent. A refund that failed is repeated by a new one.
    """


class RefundSucceededEvent(_RefundEvent, tag=EventType.REFUND_SUCCEEDED.value):
    """A refund was made.

    The money is on its way to the payer.
    """


class RefundFailedEvent(_RefundEvent, tag=EventType.REFUND_FAILED.value):
    """A refund was not made.

    The card gateway or the bank rejected it.
    """


class RefundCancelledEvent(_RefundEvent, tag=EventType.REFUND_CANCELLED.value):
    """A refund was cancelled.

    The money went back another way, or the seller declined it.
    """


class CertificateReplacedEvent(_AnyEvent, tag=EventType.CERTIFICATE_REPLACED.value):
    """The certificate of an order was replaced.

    Its name was corrected, or other credits were retired for the order.
    """

    data: Annotated[CertificateEventDataOut, Meta(description="The subject of the event, and its order.")]


class WebhookTestEvent(_AnyEvent, tag=EventType.WEBHOOK_TEST.value):
    """You asked for a test event.

    `POST /v1/webhooks/{webhook_id}/test` sends it. It is not in the event log.
    """

    data: Annotated[WebhookTestDataOut, Meta(description="A message, and a sample of an order.")]


WebhookEvent = (
    OrderReceivedEvent
    | OrderPlacedEvent
    | OrderPaidEvent
    | OrderRetiringEvent
    | OrderCancelledEvent
    | OrderFailedEvent
    | OrderCompletedEvent
    | OrderPaymentUpdatedEvent
    | OrderPersonErasedEvent
    | OrderReducedEvent
    | OrderReleasedEvent
    | AllocationNewEvent
    | AllocationRetiredEvent
    | InvoiceIssuedEvent
    | InvoiceOverdueEvent
    | InvoicePaidEvent
    | InvoiceCreditedEvent
    | InvoiceCancelledEvent
    | RefundRequestedEvent
    | RefundSucceededEvent
    | RefundFailedEvent
    | RefundCancelledEvent
    | CertificateReplacedEvent
    | WebhookTestEvent
)


class WebhookDeliveryOut(msgspec.Struct):
    """The body of a request to a receiver.

    It carries one event or more, which may be of different types. Ignore types that you do not know.
    """

    events: Annotated[list[WebhookEvent], Meta(description="In the order in which they occurred in each account.")]


def _event(shape: type[_AnyEvent], **data: Any) -> EventDescription:
    return EventDescription(str(shape.__struct_config__.tag), shape, {"data": data})


def _order_event(shape: type[_OrderEvent], **order: Any) -> EventDescription:
    return EventDescription(str(shape.__struct_config__.tag), shape, {"data": {"order": order}})


WEBHOOKS = WebhookDescription(
    WebhookDeliveryOut,
    WebhookEvent,
    [
        _order_event(OrderReceivedEvent, status=OrderStatus.RECEIVED, **schemas.UNPRICED_EXAMPLE),
        _order_event(OrderPlacedEvent, status=OrderStatus.PLACED),
        _order_event(OrderPaidEvent, status=OrderStatus.PAID),
        _order_event(OrderRetiringEvent, **schemas.RETIRING_EXAMPLE),
        _order_event(OrderCancelledEvent, status=OrderStatus.CANCELLED),
        _order_event(OrderFailedEvent, status=OrderStatus.FAILED, **schemas.UNPRICED_EXAMPLE),
        _order_event(OrderCompletedEvent, **schemas.COMPLETE_EXAMPLE),
        _order_event(OrderPaymentUpdatedEvent, payment_state=PaymentState.PAID, **schemas.COMPLETE_EXAMPLE),
        _order_event(OrderPersonErasedEvent, **schemas.PERSON_ERASED_EXAMPLE),
        _order_event(OrderReducedEvent, status=OrderStatus.PAID),
        _order_event(OrderReleasedEvent, status=OrderStatus.PAID),
        _event(AllocationNewEvent, order=schemas.RETIRING_EXAMPLE),
        _event(AllocationRetiredEvent, allocation={"status": AllocationStatus.RETIRED}, order=schemas.COMPLETE_EXAMPLE),
        _event(InvoiceIssuedEvent),
        _event(InvoiceOverdueEvent),
        _event(InvoicePaidEvent, invoice={"status": InvoiceStatus.PAID}, order={"status": OrderStatus.PAID}),
        _event(InvoiceCreditedEvent, invoice={"amount_due": "22.78"}),
        _event(
            InvoiceCancelledEvent,
            invoice={"status": InvoiceStatus.CANCELLED, "amount_due": "0.00"},
            order={"status": OrderStatus.CANCELLED},
        ),
        _event(RefundRequestedEvent, order=schemas.COMPLETE_EXAMPLE),
        _event(RefundSucceededEvent, refund={"state": RefundState.SUCCEEDED}, order=schemas.COMPLETE_EXAMPLE),
        _event(RefundFailedEvent, refund={"state": RefundState.FAILED}, order=schemas.COMPLETE_EXAMPLE),
        _event(RefundCancelledEvent, refund={"state": RefundState.CANCELLED}, order=schemas.COMPLETE_EXAMPLE),
        _event(CertificateReplacedEvent, order=schemas.COMPLETE_EXAMPLE),
        EventDescription(EventType.WEBHOOK_TEST, WebhookTestEvent, {}),
    ],
)
