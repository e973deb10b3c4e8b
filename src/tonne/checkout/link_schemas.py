"""Offset links on the wire."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from tonne.base.clock import to_wire
from tonne.base.decimals import PATTERN, parse_decimal
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.catalog.schemas import Money, Timestamp, Tonnes
from tonne.catalog.selection import BundleChoiceIn
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.redirects import MAX_URL
from tonne.http.json_body import JsonNumber


def _read_title(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not value.strip() or len(value) > 200:
        raise ValueError("expected 1 to 200 characters, not all of them spaces")
    return value


def _read_decimal(value: Any) -> str:
    """A string, so that no client's JSON library can round it on the way."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or parse_decimal(value) is None:
        raise ValueError('expected a decimal string such as "2.5", at most 15 digits before the point and 12 after')
    return value


def _read_moment(value: Any) -> datetime:
    try:
        moment: datetime = msgspec.convert(value, Annotated[datetime, msgspec.Meta(tz=True)])
        moment = moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError('expected a time with its zone, such as "2026-12-31T23:59:59Z"') from error
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _decimal(description: str, example: str) -> msgspec.Meta:
    return msgspec.Meta(description=description, pattern=PATTERN, examples=[example])


_Tonnes = Annotated[str, _read_decimal, _decimal("In tonnes, at most 6 decimals.", "1.5")]
_Value = Annotated[str, _read_decimal, _decimal("In the account's currency, fee included.", "25.00")]


class OffsetLinkIn(msgspec.Struct, forbid_unknown_fields=True):
    """All settings of a link: what is left out, or null, has its default."""

    title: Annotated[
        str,
        _read_title,
        msgspec.Meta(
            min_length=1, max_length=200, description="The headline of the page.", examples=["Offset your flight"]
        ),
    ]
    message: Annotated[str, msgspec.Meta(max_length=2000, description="Shown below the title, as plain text.")] = ""
    bundle_selection: (
        Annotated[
            list[BundleChoiceIn],
            msgspec.Meta(
                description="The bundles on offer, and in which proportion. Left out: the account's default "
                "selection. Without percentages: split equally.",
                min_length=1,
            ),
        ]
        | None
    ) = None
    preset_quantity: _Tonnes | None = None
    preset_value: _Value | None = None
    amount_editable: Annotated[
        bool, msgspec.Meta(description="Whether a person may choose another amount than the preset one.")
    ] = True
    min_quantity: _Tonnes | None = None
    max_quantity: _Tonnes | None = None
    min_value: _Value | None = None
    max_value: _Value | None = None
    redirect_url: (
        Annotated[
            str,
            msgspec.Meta(
                description="Where the button after the payment leads: https, on one of the organisation's redirect "
                "hosts.",
                extra_json_schema={"maxLength": MAX_URL},
                examples=["https://shop.example.com/thanks"],
            ),
        ]
        | None
    ) = None
    redirect_label: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1, max_length=100, description="The button reads “Back to …”.", examples=["Example Shop"]
            ),
        ]
        | None
    ) = None
    enabled: bool = True
    expires_at: (
        Annotated[
            datetime,
            _read_moment,
            msgspec.Meta(
                description="From then on the link is closed. Left out: never.", examples=["2030-12-31T23:59:59Z"]
            ),
        ]
        | None
    ) = None


class BundleChoiceOut(msgspec.Struct):
    bundle_id: str
    percentage: Annotated[str | None, msgspec.Meta(description="As it was sent.", examples=["60"])]


class OffsetLinkOut(msgspec.Struct):
    id: str
    url: Annotated[
        str,
        msgspec.Meta(
            description="Where anybody may pay.",
            examples=["https://offsets.example.com/offset/lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"],
        ),
    ]
    title: str
    message: str
    bundle_selection: list[BundleChoiceOut] | None
    preset_quantity: Tonnes | None
    preset_value: Money | None
    amount_editable: bool
    min_quantity: Tonnes | None
    max_quantity: Tonnes | None
    min_value: Money | None
    max_value: Money | None
    redirect_url: str | None
    redirect_label: str | None
    enabled: bool
    expires_at: Timestamp | None
    currency: str
    account_type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "test"]})]
    created_at: Timestamp


def offset_link_out(link: OffsetLink, currency: str, base_url: str) -> OffsetLinkOut:
    def tonnes(grams: int | None) -> str | None:
        return None if grams is None else format_tonnes(grams)

    def money(minor: int | None) -> str | None:
        return None if minor is None else format_money(minor, currency)

    selection = link.bundle_selection
    return OffsetLinkOut(
        id=link.id,
        url=link.address(base_url),
        title=link.title,
        message=link.message,
        bundle_selection=None
        if selection is None
        else [BundleChoiceOut(choice["bundle_id"], choice.get("percentage")) for choice in selection],
        preset_quantity=tonnes(link.preset_quantity_grams),
        preset_value=money(link.preset_value_minor),
        amount_editable=link.amount_editable,
        min_quantity=tonnes(link.bounds.min_quantity_grams),
        max_quantity=tonnes(link.bounds.max_quantity_grams),
        min_value=money(link.bounds.min_value_minor),
        max_value=money(link.bounds.max_value_minor),
        redirect_url=link.redirect_url,
        redirect_label=link.redirect_label,
        enabled=link.enabled,
        expires_at=None if link.expires_at is None else to_wire(link.expires_at),
        currency=currency,
        account_type=link.scope.mode,
        created_at=to_wire(link.created_at),
    )
