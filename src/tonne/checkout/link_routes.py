"""The offset links' rows in the table of routes."""

from typing import Any

from tonne.catalog.errors import BundleInvalid, RatiosInvalid, RatiosInvalidFormat
from tonne.checkout.errors import (
    OffsetLinkAmountInvalid,
    OffsetLinkExpiryInvalid,
    OffsetLinkNotFound,
    RedirectRefused,
)
from tonne.checkout.link_endpoints import OffsetLinkEndpoints
from tonne.checkout.link_schemas import OffsetLinkIn, OffsetLinkOut
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Access, Route

_ALL: dict[str, Any] = {"access": Access.API_KEY, "tag": "Offset links"}
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


def offset_link_routes(endpoints: OffsetLinkEndpoints) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/v1/offset-links",
            endpoint=endpoints.create_offset_link,
            summary="Make an offset link",
            body=OffsetLinkIn,
            example=_SETTINGS,
            answers={201: OffsetLinkOut},
            answer_example=_LINK,
            errors=(*_SETTINGS_ERRORS, OffsetLinkExpiryInvalid),
            **_ALL,
        ),
        Route(
            method="GET",
            path="/v1/offset-links",
            endpoint=endpoints.list_offset_links,
            summary="List the account's offset links, newest first",
            query=LIST_PARAMETERS,
            answers={200: ListOut[OffsetLinkOut]},
            errors=LIST_ERRORS,
            **_ALL,
        ),
        Route(
            method="GET",
            path=_ONE,
            endpoint=endpoints.read_offset_link,
            summary="Read an offset link",
            answers={200: OffsetLinkOut},
            answer_example=_LINK,
            errors=(OffsetLinkNotFound,),
            **_ALL,
        ),
        Route(
            method="PUT",
            path=_ONE,
            endpoint=endpoints.replace_offset_link,
            summary="Replace the settings of an offset link",
            body=OffsetLinkIn,
            example={**_SETTINGS, "enabled": False},
            answers={200: OffsetLinkOut},
            answer_example={**_LINK, "enabled": False},
            errors=(OffsetLinkNotFound, *_SETTINGS_ERRORS),
            **_ALL,
        ),
    ]
