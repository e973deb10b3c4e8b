"""The rows of offset links' pages and checkouts in the table of routes."""

from typing import Any

import msgspec

from tonne.http.errors import FormInvalid, RateLimited
from tonne.http.route import Access, Route
from tonne.pages.checkout_page import CheckoutPage, StateOut
from tonne.pages.forms import FormTokenInvalid
from tonne.pages.offset_page import OffsetPage
from tonne.pages.render import Renderer
from tonne.payments.checkout_errors import AlreadyPaid, CheckoutNotFound, CheckoutOver, OffsetLinkClosed


class FormIn(msgspec.Struct):
    """Fields of a form, as a browser sends them: read by `pages/forms.py`."""


def checkout_routes(offset: OffsetPage, checkout: CheckoutPage, renderer: Renderer) -> list[Route]:
    page: dict[str, Any] = {"access": Access.PUBLIC, "tag": "Pages", "show_error": renderer.error}
    form_errors = (FormInvalid, FormTokenInvalid, RateLimited)
    return [
        Route(
            method="GET",
            path="/offset/{link_id:str}",
            endpoint=offset.show,
            summary="The page of an offset link",
            answers={200: None},
            errors=(OffsetLinkClosed, AlreadyPaid),
            **page,
        ),
        Route(
            method="GET",
            path="/offset/{link_id:str}/price",
            endpoint=offset.price,
            summary="What a choice costs",
            answers={200: None},
            errors=(OffsetLinkClosed,),
            **page,
        ),
        Route(
            method="POST",
            path="/offset/{link_id:str}",
            endpoint=offset.begin,
            summary="Begin a checkout",
            body=FormIn,
            answers={303: None},
            errors=(OffsetLinkClosed, *form_errors),
            **page,
        ),
        Route(
            method="GET",
            path="/checkout/{token:str}",
            endpoint=checkout.show,
            summary="A checkout: pay, and follow the order",
            answers={200: None},
            errors=(CheckoutNotFound,),
            **page,
        ),
        Route(
            method="POST",
            path="/checkout/{token:str}/pay",
            endpoint=checkout.pay,
            summary="Pay",
            body=FormIn,
            answers={303: None},
            errors=(CheckoutNotFound, CheckoutOver, *form_errors),
            **page,
        ),
        Route(
            method="GET",
            path="/checkout/{token:str}/state",
            endpoint=checkout.state,
            summary="Whether the page has something new to show",
            answers={200: StateOut},
            errors=(CheckoutNotFound,),
            access=Access.PUBLIC,
            tag="Pages",
        ),
        Route(
            method="GET",
            path="/checkout/{token:str}/certificate.pdf",
            endpoint=checkout.certificate,
            summary="The certificate of what was paid",
            answers={200: None},
            errors=(CheckoutNotFound,),
            **page,
        ),
    ]
