"""Routes of orders."""

from tonne.catalog.errors import (
    BelowMinimumOrder,
    BundleInvalid,
    ChargeTooSmall,
    PriceRoundsToZero,
    PriceUnavailable,
    QuantityInvalid,
    RatiosInvalid,
    RatiosInvalidFormat,
    ValueInvalid,
)
from tonne.catalog.schemas import QuoteOut
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Parameter, Route, RouteMaker
from tonne.orders.endpoints import OrderEndpoints
from tonne.orders.errors import EstimateUnknown, OrderNotFound, SpendingLimitReached
from tonne.orders.schemas import OrderByEstimateIn, OrderByMassIn, OrderByValueIn, OrderOut

_SELECTION_ERRORS = (BundleInvalid, RatiosInvalid, RatiosInvalidFormat)


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
        path, errors = (
            f"POST /v1/orders/by-{way}",
            (*more, *_SELECTION_ERRORS, ChargeTooSmall, BelowMinimumOrder, PriceRoundsToZero),
        )
        name = f"OrderBy{way.capitalize()}"
        routes += [
            route(
                *(path, place, placed, *errors, SpendingLimitReached),
                operation_id=f"place{name}",
                body=body,
                takes_fair_share=False,
            ),
            route(
                *(f"{path}/quote", quote, QuoteOut, *errors, PriceUnavailable), operation_id=f"quote{name}", body=body
            ),
        ]
    link = Parameter("offset_link_id", "Only orders placed through that offset link.", {"type": "string"})
    by_key = "GET /v1/orders/by-idempotency-key/{idempotency_key:path}"
    return [
        *routes,
        route(
            *("GET /v1/orders", endpoints.list_orders, ListOut[OrderOut], *LIST_ERRORS),
            operation_id="listOrders",
            query=(*LIST_PARAMETERS, link),
        ),
        route(by_key, endpoints.read_by_key, OrderOut, OrderNotFound, operation_id="getOrderByIdempotencyKey"),
        route("GET /v1/orders/{order_id}", endpoints.read_order, OrderOut, OrderNotFound, operation_id="getOrder"),
    ]
