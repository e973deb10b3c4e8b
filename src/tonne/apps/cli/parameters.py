"""Types of arguments and options that several commands share."""

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TypeVar

import click

from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.documents.sheets.columns import CellError, parse_time
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal, scaled
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.accounts.errors import FeeRateInvalid
from tonne.selling.accounts.organisations.change_organisation import check_fee_rate
from tonne.selling.catalogue.selection import BundleChoiceIn

E = TypeVar("E", bound=StrEnum)


def parse_amount(text: str, currency: str, name: str) -> int:
    """An amount above zero in minor units. `name` is the argument or option that it comes from."""
    number = parse_decimal(text.strip())
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if minor is None or minor <= 0:
        message = f"expected an amount above 0 in {currency}, such as {format_money(1250, currency)}"
        raise click.BadParameter(message, param_hint=name)
    return minor


class EnumChoice(click.Choice[E]):
    """One of the values of an enum, which the command gets as a member of it."""

    def __init__(self, kind: type[E]) -> None:
        super().__init__(list(kind))

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - passed by its name
        return str(choice)


MODE = EnumChoice(Mode)
MAX_REASON = 500
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def check_text(text: str, option: str) -> str:
    cleaned = text.strip()
    if not 1 <= len(cleaned) <= MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint=option)
    return cleaned


class _FeeRate(click.ParamType[Decimal]):
    name = "rate"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> Decimal:
        try:
            rate = Decimal(str(value))
            check_fee_rate(rate)
        except (InvalidOperation, FeeRateInvalid):
            self.fail(FeeRateInvalid.message)
        return rate


class _Email(click.ParamType[str]):
    name = "email"

    def convert(self, value: str, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        if not is_mail_address(value):
            self.fail("expected an address such as ops@example.com")
        return value


class _BundleChoice(click.ParamType[BundleChoiceIn]):
    name = "bundle_id[=percentage]"

    def convert(self, value: str, _param: click.Parameter | None, _ctx: click.Context | None) -> BundleChoiceIn:
        bundle_id, _, percentage = value.partition("=")
        return BundleChoiceIn(bundle_id, percentage or None)


class _Moment(click.ParamType[datetime]):
    name = "time"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> datetime:
        try:
            return parse_time(str(value))
        except CellError as error:
            self.fail(str(error))


class _Past(click.ParamType[datetime]):
    """A time in the past, or how long ago it was."""

    name = "time"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> datetime:
        now = utc_now()
        if isinstance(value, datetime):
            return value
        if ago := re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", str(value).strip()):
            return now - int(ago[1]) * _UNITS[ago[2]]
        try:
            at = parse_time(str(value))
        except CellError:
            self.fail("expected a time such as 2026-11-15 or 2026-11-15T09:30Z, or how long ago: 90m, 36h, 2d, 1w")
        if at > now:
            self.fail("expected a time in the past")
        return at


class _Reason(click.ParamType[str]):
    name = "text"

    def convert(self, value: str, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        if not 1 <= len(value.strip()) <= MAX_REASON:
            self.fail(f"expected 1 to {MAX_REASON} characters")
        return value.strip()


REASON = _Reason()
FEE_RATE, EMAIL, BUNDLE_CHOICE, MOMENT, PAST = _FeeRate(), _Email(), _BundleChoice(), _Moment(), _Past()
