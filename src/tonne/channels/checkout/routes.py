"""Routes of offset links, checkouts and payments."""

from typing import Any

from tonne.channels.checkout import errors
from tonne.channels.checkout.checkout_endpoints import CheckoutEndpoints
from tonne.channels.checkout.checkout_page import CheckoutPage, StateOut
from tonne.channels.checkout.checkout_schemas import CheckoutIn, CheckoutOut
from tonne.channels.checkout.links import schemas
from tonne.channels.checkout.links.endpoints import OffsetLinkEndpoints
from tonne.channels.checkout.links.offset_page import OffsetPage
from tonne.channels.checkout.order_pages.find_orders import FindOrdersPage
from tonne.channels.checkout.order_pages.order_page import OrderPage, ReceiptPage
from tonne.channels.checkout.paying.payment_lookup import PaymentLookup, PaymentOut
from tonne.money.cards.errors import NothingToConfirm
from tonne.money.invoices.errors import InvoiceNotAvailable
from tonne.money.invoices.originals.respond import FORMAT, ORIGINAL
from tonne.platform.http.errors import FormInvalid, RateLimited
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Access, Creation, Route, RouteMaker
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.values.errors import Invalid
from tonne.platform.web.render import FormIn, FormTokenInvalid, Renderer
from tonne.selling.accounts.errors import AccountSuspended
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue import errors as catalogue_errors
from tonne.selling.orders.model import OrderStatus

_ONE = "/v1/offset-links/{offset_link_id}"
_SETTINGS_ERRORS = (
    *(
        catalogue_errors.BundleInvalid,
        catalogue_errors.RatiosInvalid,
        catalogue_errors.RatiosInvalidFormat,
        errors.OffsetLinkAmountInvalid,
        errors.RedirectRefused,
    ),
    errors.OffsetLinkNotPayable,
)
_SETTINGS = {
    "title": "Retire credits for your flight",
    "message": "Thank you for flying with us.",
    "preset_quantity": "1.5",
    "max_quantity": "100",
}

_CHECKOUT = {
    "offset_link_id": "lnk_6s0h1v3m9k2qdb7t4n8cfj5gau",
    "quantity": "1.5",
    "email": "ann@example.com",
    "external_id": "A-4711",
    "redirect_url": "https://shop.example.com/thanks?sale=A-4711",
    "idempotency_key": "sale-A-4711",
}


def link_routes(endpoints: OffsetLinkEndpoints) -> list[Route]:
    route = RouteMaker("Offset links")
    body: dict[str, Any] = {"body": schemas.OffsetLinkIn, "example": _SETTINGS}
    secret = Creation(read=endpoints.read_offset_link, parameter="offset_link_id", has_secret=True)
    return [
        route(
            "POST /v1/offset-links",
            endpoints.create_offset_link,
            {201: schemas.OffsetLinkWithSecretOut},
            *_SETTINGS_ERRORS,
            errors.OffsetLinkExpiryInvalid,
            operation_id="createOffsetLink",
            creates=secret,
            **body,
        ),
        route(
            "GET /v1/offset-links",
            endpoints.list_offset_links,
            ListOut[schemas.OffsetLinkOut],
            *LIST_ERRORS,
            operation_id="listOffsetLinks",
            query=LIST_PARAMETERS,
        ),
        route(
            f"GET {_ONE}",
            endpoints.read_offset_link,
            schemas.OffsetLinkOut,
            errors.OffsetLinkNotFound,
            operation_id="getOffsetLink",
        ),
        route(
            f"PUT {_ONE}",
            endpoints.replace_offset_link,
            schemas.OffsetLinkOut,
            errors.OffsetLinkNotFound,
            *_SETTINGS_ERRORS,
            operation_id="replaceOffsetLink",
            **body,
        ),
        route(
            f"POST {_ONE}/rotate-secret",
            endpoints.rotate_offset_link_secret,
            schemas.OffsetLinkWithSecretOut,
            errors.OffsetLinkNotFound,
            operation_id="rotateOffsetLinkSecret",
            body=schemas.LinkSecretRotateIn,
            body_required=False,
            creates=secret,
        ),
    ]


def api_checkout_routes(endpoints: CheckoutEndpoints) -> list[Route]:
    route = RouteMaker("Checkouts")
    return [
        route(
            "POST /v1/checkouts",
            endpoints.create_checkout,
            {200: CheckoutOut, 201: CheckoutOut},
            errors.OffsetLinkUnknown,
            errors.OffsetLinkNotOpen,
            errors.OffsetLinkNotPayable,
            errors.CheckoutAmountMissing,
            errors.AlreadyPaid,
            errors.BuyerInvalid,
            catalogue_errors.QuantityInvalid,
            catalogue_errors.ValueInvalid,
            errors.AmountOutOfBounds,
            errors.BundleNotOffered,
            errors.BundleSoldOut,
            errors.RedirectRefused,
            catalogue_errors.ChargeTooSmall,
            catalogue_errors.BelowMinimumOrder,
            catalogue_errors.PriceRoundsToZero,
            catalogue_errors.PriceUnavailable,
            AccountSuspended,
            operation_id="createCheckout",
            body=CheckoutIn,
            example=_CHECKOUT,
        ),
        route(
            "GET /v1/checkouts",
            endpoints.list_checkouts,
            ListOut[CheckoutOut],
            *LIST_ERRORS,
            operation_id="listCheckouts",
            query=LIST_PARAMETERS,
        ),
        route(
            "GET /v1/checkouts/{checkout_id}",
            endpoints.read_checkout,
            CheckoutOut,
            errors.ApiCheckoutNotFound,
            operation_id="getCheckout",
        ),
    ]


def payment_routes(lookup: PaymentLookup) -> list[Route]:
    path = "GET /v1/payments/by-temporary-id/{temporary_id}"
    route = RouteMaker("Payments")
    return [
        route(
            path,
            lookup.find_payment_by_temporary_id,
            PaymentOut,
            Invalid,
            errors.PaymentNotFound,
            operation_id="getPaymentByTemporaryId",
            shows={"order": {"payment_method": PaymentMethod.CARD, "status": OrderStatus.PAID}},
        )
    ]


def order_page_routes(order: OrderPage, receipt: ReceiptPage, find: FindOrdersPage, renderer: Renderer) -> list[Route]:
    page = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    sent, form_errors = {303: None}, (FormInvalid, FormTokenInvalid, RateLimited)
    confirm_errors = (errors.OrderPageNotFound, NothingToConfirm, *form_errors)
    file_errors = (errors.OrderPageNotFound, Invalid, InvoiceNotAvailable, RateLimited, SigningUnavailable)
    original = ({200: ORIGINAL, 304: None}, *file_errors)
    return [
        page("GET /find-orders", find.show, None),
        page("POST /find-orders", find.ask, None, *form_errors, body=FormIn),
        page("GET /o/{token}", order.show, None, errors.OrderPageNotFound),
        page("GET /o/{token}/state", order.state, StateOut, errors.OrderPageNotFound, show_error=None),
        page("POST /o/{token}/confirm", order.confirm, sent, *confirm_errors, body=FormIn),
        page("POST /o/{token}/cancel", order.cancel, sent, errors.OrderPageNotFound, *form_errors, body=FormIn),
        page("GET /o/{token}/bank", order.show_bank, None, errors.OrderPageNotFound, NothingToConfirm),
        page("POST /o/{token}/bank", order.answer_bank, sent, *confirm_errors, body=FormIn),
        page("GET /o/{token}/certificate.pdf", order.certificate, None, errors.OrderPageNotFound, RateLimited),
        page("GET /o/{token}/receipt", receipt.show, None, errors.OrderPageNotFound),
        page("GET /o/{token}/receipt.pdf", receipt.pdf, None, errors.OrderPageNotFound, RateLimited),
        page("GET /o/{token}/invoice", receipt.invoice, *original, query=(FORMAT,)),
        page("GET /o/{token}/documents/{number}", receipt.document, *original, query=(FORMAT,)),
    ]


def checkout_routes(offset: OffsetPage, checkout: CheckoutPage, renderer: Renderer) -> list[Route]:
    page = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    sent, form_errors = {303: None}, (FormInvalid, FormTokenInvalid, RateLimited)
    link_errors = (
        errors.OffsetLinkClosed,
        errors.SellerTakesNoCards,
        errors.LinkSignatureInvalid,
        errors.LinkSignatureExpired,
        RateLimited,
    )
    bank_errors = (errors.CheckoutNotFound, NothingToConfirm, *form_errors[:2])
    pay_errors = (errors.CheckoutNotFound, errors.CheckoutOver, *form_errors)
    return [
        page("GET /offset/{link_id}", offset.show, None, *link_errors, errors.AlreadyPaid),
        page("GET /offset/{link_id}/price", offset.price, None, *link_errors),
        page("GET /offset/{link_id}/logo", offset.logo, None, errors.OffsetLinkClosed),
        page("POST /offset/{link_id}", offset.begin, sent, *link_errors, *form_errors[:2], body=FormIn),
        page("GET /checkout/{token}", checkout.show, None, errors.CheckoutNotFound),
        page("POST /checkout/{token}/pay", checkout.pay, sent, *pay_errors, body=FormIn),
        page("GET /checkout/{token}/bank", checkout.show_bank, None, errors.CheckoutNotFound, NothingToConfirm),
        page("POST /checkout/{token}/bank", checkout.answer_bank, sent, *bank_errors, body=FormIn),
        page("GET /checkout/{token}/state", checkout.state, StateOut, errors.CheckoutNotFound, show_error=None),
        page("GET /checkout/{token}/certificate.pdf", checkout.certificate, None, errors.CheckoutNotFound, RateLimited),
    ]
