"""Routes of card payments."""

from typing import Any

from tonne.cards.endpoints import (
    CardEndpoints,
    DeclineIn,
    HeardOut,
    PayIn,
    StripeEventIn,
)
from tonne.cards.errors import ChargeUnderWay, OrderPaidByInvoice, SignatureRefused
from tonne.http.errors import RouteNotFound
from tonne.http.route import Access, Route
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.schemas import OrderOut

_HELPED = "/v1/test-helpers/orders/{order_id}"
_ONE: dict[str, Any] = {
    "method": "POST",
    "access": Access.API_KEY,
    "body_required": False,
    "answers": {200: OrderOut},
}
_CARD_ERRORS = (OrderNotFound, RouteNotFound, TransitionInvalid, ChargeUnderWay, OrderPaidByInvoice)


def card_routes(endpoints: CardEndpoints) -> list[Route]:
    return [
        Route(
            path=f"{_HELPED}/pay",
            endpoint=endpoints.pay_test_order,
            summary="Pay a placed order by card now",
            tag="Test helpers",
            body=PayIn,
            example={},
            errors=_CARD_ERRORS,
            **_ONE,
        ),
        Route(
            path=f"{_HELPED}/decline",
            endpoint=endpoints.decline_test_order,
            summary="Let the bank decline a placed order's card now",
            tag="Test helpers",
            body=DeclineIn,
            example={"code": "insufficient_funds"},
            errors=_CARD_ERRORS,
            **_ONE,
        ),
    ]


def gateway_routes(endpoints: CardEndpoints) -> list[Route]:
    """For gateways, not for clients: no part of the interface that the documentation shows."""
    return [
        Route(
            method="POST",
            path="/gateways/stripe/webhook",
            endpoint=endpoints.handle_stripe_event,
            access=Access.PUBLIC,
            summary="Take an event from Stripe, verified by its signature",
            tag="Operation",
            body=StripeEventIn,
            answers={200: HeardOut},
            errors=(SignatureRefused, RouteNotFound),
        )
    ]
