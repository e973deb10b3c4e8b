"""JSON of Sustainability page settings."""

from typing import Annotated

import msgspec

from tonne.channels.public_pages import model
from tonne.platform.values.context import Mode, Timestamp, to_wire
from tonne.platform.values.same_named import same_named

_ENABLED = msgspec.Meta(description="Whether the page is public. A disabled page returns 404.", examples=[True])
_SLUG = msgspec.Meta(description="Last part of the page's address. Earlier slugs redirect to it.", examples=["acme"])
_TITLE = msgspec.Meta(description="Heading of the page.", examples=["Acme and the climate"])
_DESCRIPTION = msgspec.Meta(description="Plain text below the heading.", examples=["We offset every delivery."])
_SECTIONS = msgspec.Meta(description="The sections below the total.", examples=[["timeline", "projects"]])


class LogoIn(msgspec.Struct, forbid_unknown_fields=True):
    media_type: Annotated[
        str,
        msgspec.Meta(
            max_length=50,
            description="Format of the image.",
            extra_json_schema={"enum": ["image/png", "image/jpeg", "image/webp"]},
        ),
    ]
    data: Annotated[
        str,
        msgspec.Meta(
            description="The image in base64, at most 96 KiB and 4096 pixels a side.",
            examples=[
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
            ],
            extra_json_schema={"maxLength": 131_072, "contentEncoding": "base64"},
        ),
    ]


class SustainabilityPageIn(msgspec.Struct, forbid_unknown_fields=True):
    """Fields that are left out keep their value. A logo of null removes the logo."""

    enabled: Annotated[bool, _ENABLED] | None = None
    slug: (
        Annotated[
            str, msgspec.Meta(min_length=model.MIN_SLUG, max_length=model.MAX_SLUG, pattern=model.SLUG_PATTERN), _SLUG
        ]
        | None
    ) = None
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=model.MAX_TITLE), _TITLE] | None = None
    description: Annotated[str, msgspec.Meta(max_length=model.MAX_DESCRIPTION), _DESCRIPTION] | None = None
    sections: (
        Annotated[
            list[model.PageSection],
            msgspec.Meta(max_length=len(model.PageSection), extra_json_schema={"uniqueItems": True}),
            _SECTIONS,
        ]
        | None
    ) = None
    logo: Annotated[LogoIn | None, msgspec.Meta(description="New logo. Null removes the logo.")] = None


class SustainabilityPageOut(msgspec.Struct):
    enabled: Annotated[bool, _ENABLED]
    slug: Annotated[str, _SLUG]
    title: Annotated[str, _TITLE]
    description: Annotated[str, _DESCRIPTION]
    sections: Annotated[list[model.PageSection], _SECTIONS]
    logo_url: Annotated[
        str | None,
        msgspec.Meta(
            description="Address of the logo. Null if there is none.",
            examples=["https://offsets.example.com/sustainability/acme/logo?v=5f2b8c01d9e3"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    url: Annotated[
        str,
        msgspec.Meta(
            description="Public address of the page.",
            examples=["https://offsets.example.com/sustainability/acme"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    account_type: Annotated[Mode, msgspec.Meta(description="Mode of the account.", examples=["live"])]
    updated_at: Annotated[
        Timestamp | None, msgspec.Meta(description="Time of the last change. Null until the page is set up.")
    ]


def page_out(page: model.SustainabilityPage, base_url: str) -> SustainabilityPageOut:
    return same_named(
        SustainabilityPageOut,
        page,
        sections=list(page.sections),
        logo_url=page.logo_address(base_url),
        url=page.address(base_url),
        account_type=page.scope.mode,
        updated_at=None if page.updated_at is None else to_wire(page.updated_at),
    )
