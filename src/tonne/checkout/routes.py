"""Routes of offset links, checkouts and payments."""

from functools import partial

import msgspec

from tonne.base.errors import Invalid
from tonne.catalog.errors import BundleInvalid, RatiosInvalid, RatiosInvalidFormat
from tonne.checkout.checkout_page import CheckoutPage, StateOut
from tonne.checkout.errors import (
    AlreadyPaid,
    CheckoutNotFound,
    CheckoutOver,
    OffsetLinkAmountInvalid,
    OffsetLinkClosed,
    OffsetLinkExpiryInvalid,
    OffsetLinkNotFound,
    PaymentNotFound,
    RedirectRefused,
)
from tonne.checkout.link_endpoints import OffsetLinkEndpoints
from tonne.checkout.link_schemas import OffsetLinkIn, OffsetLinkOut
from tonne.checkout.offset_page import OffsetPage
from tonne.checkout.payment_lookup import PaymentLookup, PaymentOut
from tonne.http.errors import FormInvalid, RateLimited
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Access, Route
from tonne.web.forms import FormTokenInvalid
from tonne.web.render import Renderer

_ONE = "/v1/offset-links/{offset_link_id}"
_SETTINGS_ERRORS = (BundleInvalid, RatiosInvalid, RatiosInvalidFormat, OffsetLinkAmountInvalid, RedirectRefused)
_SETTINGS = {
    "title": "Offset your flight",
    "message": "Thank you for flying with us.",
    "preset_quantity": "1.5",
    "max_quantity": "100",
}
_LINK = {
    "id": "lnk_6s0h1v3m9k2qdb7t4n8cfj5gau",
    "url": "https://offsets.example.com/offset/lnk_6s0h1v3m9k2qdb7t4n8cfj5gau",
    "title": "Offset your flight",
    "message": "Thank you for flying with us.",
    "bundle_selection": None,
    "preset_quantity": "1.5",
    "preset_value": None,
    "amount_editable": True,
    "min_quantity": None,
    "max_quantity": "100",
    "min_value": None,
    "max_value": None,
    "redirect_url": None,
    "redirect_label": None,
    "enabled": True,
    "expires_at": None,
    "currency": "EUR",
    "account_type": "test",
    "created_at": "2026-11-15T10:00:00.123Z",
}


class FormIn(msgspec.Struct):
    """Form fields as a browser sends them. `web/forms.py` reads them."""


def link_routes(endpoints: OffsetLinkEndpoints) -> list[Route]:
    route = partial(Route, access=Access.API_KEY, tag="Offset links")
    return [
        route(
            method="POST",
            path="/v1/offset-links",
            endpoint=endpoints.create_offset_link,
            summary="Create an offset link",
            body=OffsetLinkIn,
            example=_SETTINGS,
            answers={201: OffsetLinkOut},
            answer_example=_LINK,
            errors=(*_SETTINGS_ERRORS, OffsetLinkExpiryInvalid),
        ),
        route(
            method="GET",
            path="/v1/offset-links",
            endpoint=endpoints.list_offset_links,
            summary="List the account's offset links, newest first",
            query=LIST_PARAMETERS,
            answers={200: ListOut[OffsetLinkOut]},
            errors=LIST_ERRORS,
        ),
        route(
            method="GET",
            path=_ONE,
            endpoint=endpoints.read_offset_link,
            summary="Read an offset link",
            answers={200: OffsetLinkOut},
            answer_example=_LINK,
            errors=(OffsetLinkNotFound,),
        ),
        route(
            method="PUT",
            path=_ONE,
            endpoint=endpoints.replace_offset_link,
            summary="Replace the settings of an offset link",
            body=OffsetLinkIn,
            example={**_SETTINGS, "enabled": False},
            answers={200: OffsetLinkOut},
            answer_example={**_LINK, "enabled": False},
            errors=(OffsetLinkNotFound, *_SETTINGS_ERRORS),
        ),
    ]


def payment_routes(lookup: PaymentLookup) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/payments/by-temporary-id/{temporary_id}",
            endpoint=lookup.find_payment_by_temporary_id,
            access=Access.API_KEY,
            summary="Find a payment by its temporary id",
            tag="Payments",
            answers={200: PaymentOut},
            errors=(Invalid, PaymentNotFound),
        )
    ]


def checkout_routes(offset: OffsetPage, checkout: CheckoutPage, renderer: Renderer) -> list[Route]:
    page = partial(Route, access=Access.PUBLIC, tag="Pages", show_error=renderer.error)
    form_errors = (FormInvalid, FormTokenInvalid, RateLimited)
    return [
        page(
            method="GET",
            path="/offset/{link_id}",
            endpoint=offset.show,
            summary="The page of an offset link",
            errors=(OffsetLinkClosed, AlreadyPaid),
            answers={200: None},
        ),
        page(
            method="GET",
            path="/offset/{link_id}/price",
            endpoint=offset.price,
            summary="The price of a choice",
            errors=(OffsetLinkClosed,),
            answers={200: None},
        ),
        page(
            method="POST",
            path="/offset/{link_id}",
            endpoint=offset.begin,
            summary="Begin a checkout",
            errors=(OffsetLinkClosed, *form_errors),
            body=FormIn,
            answers={303: None},
        ),
        page(
            method="GET",
            path="/checkout/{token}",
            endpoint=checkout.show,
            summary="The page of a checkout",
            errors=(CheckoutNotFound,),
            answers={200: None},
        ),
        page(
            method="POST",
            path="/checkout/{token}/pay",
            endpoint=checkout.pay,
            summary="Pay a checkout",
            errors=(CheckoutNotFound, CheckoutOver, *form_errors),
            body=FormIn,
            answers={303: None},
        ),
        page(
            method="GET",
            path="/checkout/{token}/state",
            endpoint=checkout.state,
            summary="The state of a checkout",
            errors=(CheckoutNotFound,),
            answers={200: StateOut},
            show_error=None,
        ),
        page(
            method="GET",
            path="/checkout/{token}/certificate.pdf",
            endpoint=checkout.certificate,
            summary="The certificate of a paid checkout",
            errors=(CheckoutNotFound,),
            answers={200: None},
        ),
    ]
