"""Routes of card payments."""

from tonne.money.cards.endpoints import CardEndpoints, DeclineIn, PayIn, StripeEventIn, StripeEventOut
from tonne.money.cards.errors import CardPageNotFound, ChargeUnderWay, OrderPaidByInvoice, SignatureRefused
from tonne.money.cards.stored_cards.card_page import CardPage
from tonne.platform.http.errors import FormInvalid, RateLimited, RouteNotFound
from tonne.platform.http.route import Access, Route, RouteMaker
from tonne.platform.web.render import FormIn, FormTokenInvalid, Renderer
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.schemas import OrderOut

_CARD_ERRORS = (OrderNotFound, RouteNotFound, TransitionInvalid, ChargeUnderWay, OrderPaidByInvoice)


def card_routes(endpoints: CardEndpoints) -> list[Route]:
    route, path = RouteMaker("Test helpers", body_required=False), "POST /v1/test-helpers/orders/{order_id}"
    return [
        route(
            f"{path}/pay",
            endpoints.pay_test_order,
            OrderOut,
            *_CARD_ERRORS,
            operation_id="payTestOrder",
            shows={"status": OrderStatus.PAID, "payment_method": PaymentMethod.CARD},
            body=PayIn,
            example={},
        ),
        route(
            f"{path}/decline",
            endpoints.decline_test_order,
            OrderOut,
            *_CARD_ERRORS,
            operation_id="declineTestOrder",
            shows={"payment_method": PaymentMethod.CARD},
            body=DeclineIn,
        ),
    ]


def card_page_routes(card: CardPage, renderer: Renderer) -> list[Route]:
    page = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    errors = (CardPageNotFound, FormInvalid, FormTokenInvalid, RateLimited)
    return [
        page("GET /card/{token}", card.show, None, CardPageNotFound),
        page("POST /card/{token}", card.submit, {303: None}, *errors, body=FormIn),
    ]


def gateway_routes(endpoints: CardEndpoints) -> list[Route]:
    """For gateways, not for clients: not in the OpenAPI document."""
    route, path = RouteMaker("Operation", Access.PUBLIC, body=StripeEventIn), "POST /gateways/stripe/webhook"
    return [
        route(
            path,
            endpoints.handle_stripe_event,
            StripeEventOut,
            SignatureRefused,
            RouteNotFound,
            find_payer=endpoints.find_payer,
        )
    ]
