"""Routes of refunds."""

from typing import Any

from tonne.money.refunds.endpoints import RefundEndpoints
from tonne.money.refunds.errors import (
    NothingToDispute,
    NothingToRefund,
    RefundAmountInvalid,
    RefundExceedsPaid,
    RefundNotAllowed,
)
from tonne.money.refunds.schemas import CancelIn, DisputeIn, HelperCancelIn, ReduceIn, RefundIn, RefundOut
from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Creation, Endpoint, Route, RouteMaker
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderFulfilled, OrderNotFound, ReductionInvalid, TransitionInvalid
from tonne.selling.orders.model import CancellationReason, OrderStatus, PaymentState
from tonne.selling.orders.schemas import OrderOut


def refund_routes(endpoints: RefundEndpoints, read_order: Endpoint) -> list[Route]:
    order, helper = RouteMaker("Orders"), RouteMaker("Test helpers", body_required=False)
    one, helped = "/v1/orders/{order_id}", "/v1/test-helpers/orders/{order_id}"
    cancelling = (OrderNotFound, TransitionInvalid, OrderFulfilled, RefundNotAllowed)
    refunding = (OrderNotFound, RefundNotAllowed, RefundAmountInvalid, RefundExceedsPaid, NothingToRefund)
    shows = {"status": OrderStatus.CANCELLED, "cancellation_reason": CancellationReason.REQUESTED_BY_CLIENT}
    body: dict[str, Any] = {"body": CancelIn, "body_required": False, "shows": shows}
    once = {**body, "creates": Creation(read=read_order, parameter="order_id")}
    disputed = {
        "status": OrderStatus.PAID,
        "payment_method": PaymentMethod.CARD,
        "payment_state": PaymentState.DISPUTED,
    }
    return [
        order(f"POST {one}/cancel", endpoints.cancel_order, OrderOut, *cancelling, operation_id="cancelOrder", **once),
        helper(
            f"POST {helped}/cancel",
            endpoints.cancel_test_order,
            OrderOut,
            *cancelling,
            RouteNotFound,
            operation_id="cancelTestOrder",
            **{**body, "body": HelperCancelIn},
        ),
        order(
            f"POST {one}/reduce",
            endpoints.reduce_order,
            OrderOut,
            OrderNotFound,
            OrderFulfilled,
            TransitionInvalid,
            ReductionInvalid,
            operation_id="reduceOrder",
            shows={"status": OrderStatus.PAID},
            body=ReduceIn,
            creates=once["creates"],
        ),
        order(
            f"POST {one}/refunds",
            endpoints.refund_order,
            {201: RefundOut, 200: RefundOut},
            *refunding,
            operation_id="refundOrder",
            body=RefundIn,
            body_required=False,
        ),
        order(
            f"GET {one}/refunds",
            endpoints.list_refunds,
            ListOut[RefundOut],
            *LIST_ERRORS,
            OrderNotFound,
            RefundNotAllowed,
            operation_id="listOrderRefunds",
            query=LIST_PARAMETERS,
        ),
        helper(
            f"POST {helped}/dispute",
            endpoints.dispute_test_order,
            OrderOut,
            OrderNotFound,
            RouteNotFound,
            NothingToDispute,
            operation_id="disputeTestOrder",
            shows=disputed,
            body=DisputeIn,
        ),
    ]
