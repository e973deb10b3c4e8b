"""The orders' rows in the table of routes."""

from tonne.catalog.errors import (
    BundleInvalid,
    PriceUnavailable,
    QuantityInvalid,
    RatiosInvalid,
    RatiosInvalidFormat,
    ValueInvalid,
)
from tonne.catalog.schemas import QuoteOut
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Access, Parameter, Route
from tonne.orders.endpoints import OrderEndpoints
from tonne.orders.errors import EstimateUnknown, OrderNotFound
from tonne.orders.schemas import OrderByEstimateIn, OrderByMassIn, OrderByValueIn, OrderOut

_SELECTION_ERRORS = (BundleInvalid, RatiosInvalid, RatiosInvalidFormat)


def order_routes(endpoints: OrderEndpoints) -> list[Route]:
    ways = (
        ("estimate", endpoints.place_by_estimate, endpoints.quote_by_estimate, OrderByEstimateIn, (EstimateUnknown,)),
        ("mass", endpoints.place_by_mass, endpoints.quote_by_mass, OrderByMassIn, (QuantityInvalid,)),
        ("value", endpoints.place_by_value, endpoints.quote_by_value, OrderByValueIn, (ValueInvalid, QuantityInvalid)),
    )
    routes = []
    for way, place, quote, body, errors in ways:
        routes += [
            Route(
                method="POST",
                path=f"/v1/orders/by-{way}",
                endpoint=place,
                access=Access.API_KEY,
                summary=f"Place an order by {way}",
                description="201 with a new order; 200 with the original one when its idempotency_key was used before.",
                tag="Orders",
                body=body,
                answers={200: OrderOut, 201: OrderOut},
                errors=(*errors, *_SELECTION_ERRORS),
            ),
            Route(
                method="POST",
                path=f"/v1/orders/by-{way}/quote",
                endpoint=quote,
                access=Access.API_KEY,
                summary=f"Price an order by {way} without placing it",
                description="Takes the body of the order; idempotency_key and metadata are not used.",
                tag="Orders",
                body=body,
                answers={200: QuoteOut},
                errors=(*errors, *_SELECTION_ERRORS, PriceUnavailable),
            ),
        ]
    return [*routes, *_read_routes(endpoints)]


def _read_routes(endpoints: OrderEndpoints) -> list[Route]:
    link = Parameter("offset_link_id", "Only orders placed through that offset link.", {"type": "string"})
    return [
        Route(
            method="GET",
            path="/v1/orders",
            endpoint=endpoints.list_orders,
            access=Access.API_KEY,
            summary="List the account's orders, newest first",
            tag="Orders",
            query=(*LIST_PARAMETERS, link),
            answers={200: ListOut[OrderOut]},
            errors=LIST_ERRORS,
        ),
        Route(
            method="GET",
            path="/v1/orders/by-idempotency-key/{idempotency_key:path}",
            endpoint=endpoints.read_by_key,
            access=Access.API_KEY,
            summary="Read an order by its idempotency key",
            description="The key URL-encoded: a slash in it is `%2F`.",
            tag="Orders",
            answers={200: OrderOut},
            errors=(OrderNotFound,),
        ),
        Route(
            method="GET",
            path="/v1/orders/{order_id:str}",
            endpoint=endpoints.read_order,
            access=Access.API_KEY,
            summary="Read an order",
            tag="Orders",
            answers={200: OrderOut},
            errors=(OrderNotFound,),
        ),
    ]
