"""The rows of offset links' pages and checkouts in the table of routes."""

from typing import Any

import msgspec

from tonne.checkout.checkout_page import CheckoutPage, StateOut
from tonne.checkout.errors import AlreadyPaid, CheckoutNotFound, CheckoutOver, OffsetLinkClosed
from tonne.checkout.offset_page import OffsetPage
from tonne.http.errors import FormInvalid, RateLimited
from tonne.http.route import Access, Route
from tonne.web.forms import FormTokenInvalid
from tonne.web.render import Renderer


class FormIn(msgspec.Struct):
    """Fields of a form, as a browser sends them: read by `pages/forms.py`."""


def checkout_routes(offset: OffsetPage, checkout: CheckoutPage, renderer: Renderer) -> list[Route]:
    page: dict[str, Any] = {
        "method": "GET",
        "access": Access.PUBLIC,
        "tag": "Pages",
        "answers": {200: None},
        "show_error": renderer.error,
    }
    form = page | {"method": "POST", "body": FormIn, "answers": {303: None}}
    form_errors = (FormInvalid, FormTokenInvalid, RateLimited)
    return [
        Route(
            path="/offset/{link_id}",
            endpoint=offset.show,
            summary="The page of an offset link",
            errors=(OffsetLinkClosed, AlreadyPaid),
            **page,
        ),
        Route(
            path="/offset/{link_id}/price",
            endpoint=offset.price,
            summary="What a choice costs",
            errors=(OffsetLinkClosed,),
            **page,
        ),
        Route(
            path="/offset/{link_id}",
            endpoint=offset.begin,
            summary="Begin a checkout",
            errors=(OffsetLinkClosed, *form_errors),
            **form,
        ),
        Route(
            path="/checkout/{token}",
            endpoint=checkout.show,
            summary="A checkout: pay, and follow the order",
            errors=(CheckoutNotFound,),
            **page,
        ),
        Route(
            path="/checkout/{token}/pay",
            endpoint=checkout.pay,
            summary="Pay",
            errors=(CheckoutNotFound, CheckoutOver, *form_errors),
            **form,
        ),
        Route(
            path="/checkout/{token}/state",
            endpoint=checkout.state,
            summary="Whether the page has something new to show",
            errors=(CheckoutNotFound,),
            **(page | {"answers": {200: StateOut}, "show_error": None}),
        ),
        Route(
            path="/checkout/{token}/certificate.pdf",
            endpoint=checkout.certificate,
            summary="The certificate of what was paid",
            errors=(CheckoutNotFound,),
            **page,
        ),
    ]
