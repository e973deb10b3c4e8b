"""Routes of orders."""

from typing import Any

from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Parameter, Route, RouteMaker
from tonne.platform.values.errors import TimeRangeInvalid
from tonne.selling.accounts.errors import AccountSuspended
from tonne.selling.catalogue.errors import (
    PRICE_ERRORS,
    SELECTION_ERRORS,
    PriceUnavailable,
    QuantityInvalid,
    ValueInvalid,
)
from tonne.selling.catalogue.schemas import QuoteOut
from tonne.selling.orders.endpoints import OrderEndpoints
from tonne.selling.orders.errors import (
    EstimateUnknown,
    FulfilAfterInvalid,
    OrderFulfilled,
    OrderNotFound,
    QuoteExpired,
    QuoteMismatch,
    QuoteUnknown,
    QuoteUsed,
    SpendingLimitReached,
    SupplyInsufficient,
    TransitionInvalid,
)
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.order_filter import FILTER_PARAMETERS
from tonne.selling.orders.placing.batch_endpoints import MAX_BATCH_BYTES, BatchEndpoints, OrderBatchIn, OrderBatchOut
from tonne.selling.orders.placing.bodies import OrderByEstimateIn, OrderByMassIn, OrderByValueIn
from tonne.selling.orders.schemas import OrderOut

_QUOTE_ERRORS = (QuoteUnknown, QuoteExpired, QuoteUsed, QuoteMismatch)


_EXAMPLES: dict[str, Any] = {
    "estimate": {"estimate_id": "est_06gtv168mimt7f59c5an0fgcj0"},
    "mass": {"mass": {"amount": "1040", "unit": "t"}},
    "value": {"value": "250.00"},
}
_BY_KEY = "GET /v1/orders/by-idempotency-key/{idempotency_key:path}"


def batch_route(endpoints: BatchEndpoints) -> Route:
    examples = [{**_EXAMPLES["mass"], "idempotency_key": "fleet-2026-11-0001"}, _EXAMPLES["value"]]
    return RouteMaker("Orders")(
        "POST /v1/orders/batch",
        endpoints.place_batch,
        OrderBatchOut,
        operation_id="placeOrders",
        body=OrderBatchIn,
        example={"orders": examples, "idempotency_key": "fleet-2026-11"},
        max_body_bytes=MAX_BATCH_BYTES,
        takes_fair_share=False,
    )


def order_routes(endpoints: OrderEndpoints) -> list[Route]:
    route = RouteMaker("Orders")
    placed = {200: OrderOut, 201: OrderOut}
    ways = (
        ("estimate", endpoints.place_by_estimate, endpoints.quote_by_estimate, OrderByEstimateIn, (EstimateUnknown,)),
        ("mass", endpoints.place_by_mass, endpoints.quote_by_mass, OrderByMassIn, (QuantityInvalid,)),
        ("value", endpoints.place_by_value, endpoints.quote_by_value, OrderByValueIn, (ValueInvalid, QuantityInvalid)),
    )
    routes = []
    for way, place, quote, body, more in ways:
        path = f"POST /v1/orders/by-{way}"
        errors = (*more, *SELECTION_ERRORS, AccountSuspended, *PRICE_ERRORS)
        name = f"OrderBy{way.capitalize()}"
        example = {**_EXAMPLES[way], "idempotency_key": "flight-2026-11-15-0042"}
        routes += [
            route(
                path,
                place,
                placed,
                *errors,
                *_QUOTE_ERRORS,
                SpendingLimitReached,
                SupplyInsufficient,
                PriceUnavailable,
                FulfilAfterInvalid,
                operation_id=f"place{name}",
                body=body,
                example=example,
                takes_fair_share=False,
            ),
            route(
                f"{path}/quote",
                quote,
                QuoteOut,
                *errors,
                PriceUnavailable,
                operation_id=f"quote{name}",
                body=body,
                example=_EXAMPLES[way],
            ),
        ]
    release = route(
        "POST /v1/orders/{order_id}/release",
        endpoints.release_order,
        OrderOut,
        OrderNotFound,
        OrderFulfilled,
        TransitionInvalid,
        operation_id="releaseOrder",
        shows={"status": OrderStatus.PAID},
    )
    return [*routes, *_reading_routes(endpoints, route), release]


def _reading_routes(endpoints: OrderEndpoints, route: RouteMaker) -> list[Route]:
    link = Parameter("offset_link_id", "Only orders placed through that offset link.", {"type": "string"})
    return [
        route(
            "GET /v1/orders",
            endpoints.list_orders,
            {200: ListOut[OrderOut], 304: None},
            *LIST_ERRORS,
            TimeRangeInvalid,
            operation_id="listOrders",
            query=(*LIST_PARAMETERS, *FILTER_PARAMETERS, link),
        ),
        # All organisations share the few statements of grouped reads.
        *(
            route(path, endpoint, {200: OrderOut, 304: None}, OrderNotFound, operation_id=name, takes_fair_share=False)
            for path, endpoint, name in (
                (_BY_KEY, endpoints.read_by_key, "getOrderByIdempotencyKey"),
                ("GET /v1/orders/{order_id}", endpoints.read_order, "getOrder"),
            )
        ),
    ]
