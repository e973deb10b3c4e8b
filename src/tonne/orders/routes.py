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

# 1040 t at 6.90, fee 10 %: the first example of docs/pricing.md.
_BUNDLE = {
    "bundle_id": "bun_06gtv168k5mt6mitjtjihcsfns",
    "bundle_name": "Wind power",
    "primary_image": "https://offsets.example.com/images/bundles/wind-power.svg",
    "quantity": "1040",
    "unit_price": "6.90",
    "gross_unit_price": "7.67",
    "offset_cost": "7176.00",
    "insufficient_available_quantity": False,
}
_COSTS = {
    "currency": "EUR",
    "quantity": "1040",
    "offset_cost": "7176.00",
    "commission": "800.80",
    "total_cost": "7976.80",
    "bundles": [_BUNDLE],
    "requested_quantity": "1040",
    "requested_value": None,
}
_QUOTE = {"type": "quantity", **_COSTS, "fee_rate": "0.1", "exchange_rate": None, "estimate_id": None}
_ORDER = {
    "id": "ord_06gtv1alff3htg9thvlvj59t20",
    "idempotency_key": "order-1",
    "type": "quantity",
    "status": "placed",
    **_COSTS,
    "payment_method": "invoice",
    "created_at": "2026-11-15T10:00:00.123Z",
    "projects": [],
    "certificate": None,
    "public_certificate_url": None,
    "metadata": {"invoice": "A-17"},
    "offset_link_id": None,
    "email": None,
    "estimate_id": None,
}
_WANTED: dict[str, dict[str, object]] = {
    "estimate": {"estimate_id": "est_06gtv168mimt7f59c5an0fgcj0"},
    "mass": {"mass": {"amount": "1040", "unit": "t"}},
    "value": {"value": "7976.80"},
}
_REST = {"idempotency_key": "order-1", "metadata": {"invoice": "A-17"}}
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
                tag="Orders",
                body=body,
                example={**_WANTED[way], **_REST},
                answers={200: OrderOut, 201: OrderOut},
                answer_example=_ORDER,
                errors=(*errors, *_SELECTION_ERRORS),
            ),
            Route(
                method="POST",
                path=f"/v1/orders/by-{way}/quote",
                endpoint=quote,
                access=Access.API_KEY,
                summary=f"Price an order by {way} without placing it",
                tag="Orders",
                body=body,
                example=_WANTED[way],
                answers={200: QuoteOut},
                answer_example=_QUOTE,
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
            answer_example={"has_more": False, "next_cursor": None, "data": [_ORDER]},
            errors=LIST_ERRORS,
        ),
        Route(
            method="GET",
            path="/v1/orders/by-idempotency-key/{idempotency_key:path}",
            endpoint=endpoints.read_by_key,
            access=Access.API_KEY,
            summary="Read an order by its idempotency key",
            tag="Orders",
            answers={200: OrderOut},
            answer_example=_ORDER,
            errors=(OrderNotFound,),
        ),
        Route(
            method="GET",
            path="/v1/orders/{order_id}",
            endpoint=endpoints.read_order,
            access=Access.API_KEY,
            summary="Read an order",
            tag="Orders",
            answers={200: OrderOut},
            answer_example=_ORDER,
            errors=(OrderNotFound,),
        ),
    ]
