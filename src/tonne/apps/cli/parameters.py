"""What commands share: types of arguments and options, files, and options and columns derived from a wire struct."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from tonne.apps.cli.output import ValueColumn
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.documents.sheets.columns import CellError, SheetInvalid, parse_time
from tonne.platform.documents.sheets.read_sheet import MAX_BYTES, SheetFile
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal, scaled
from tonne.platform.values.context import Mode, utc_now
from tonne.platform.web.fields import Field, fields_of
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


FILE = click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))


OUTPUT = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write."
)


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> SheetFile:
    try:
        with path.open("rb") as stream:
            # One byte above the limit is enough to see that the file is too large.
            return SheetFile(path.name, stream.read(max_bytes + 1))
    except OSError as error:
        raise click.ClickException(f"Cannot read {path}: {error.strerror}.") from error


@contextmanager
def reported_errors() -> Iterator[None]:
    """Print every error of an invalid file, and exit with code 1."""
    try:
        yield
    except SheetInvalid as error:
        for each in error.errors:
            click.echo(str(each), err=True)
        count = "1 error" if len(error.errors) == 1 else f"{len(error.errors):,} errors"
        raise click.ClickException(f"Nothing was imported: {count}.") from error


def write_file(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def creating(path: Path) -> Iterator[None]:
    """Explain why the file could not be created: none is overwritten."""
    try:
        yield
    except FileExistsError as error:
        raise click.ClickException(f"{path} already exists: choose another name, or move the file.") from error
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}.") from error


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=msgspec.Struct)


def options_of(struct: type[msgspec.Struct], *, is_change: bool = False, can_clear: bool = False) -> Callable[[F], F]:
    """An option for every described field. None is required for a change; empty texts may clear a setting."""

    def decorate(command: F) -> F:
        for field in reversed(fields_of(struct).values()):
            option = field.option
            if option is None:
                name = field.name.replace("_", "-")
                option = f"--{name}/--no-{name}" if field.is_flag else f"--{name}"
            if option:
                is_required = field.is_required and not is_change
                command = _option(option, field, is_required=is_required, can_clear=can_clear)(command)
        return command

    return decorate


class _ChoiceOrEmpty(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "" else super().convert(value, param, ctx)


def _option(option: str, field: Field, *, is_required: bool, can_clear: bool) -> Callable[[F], F]:
    """Options that are not given are None; lists are empty."""
    if field.is_list:
        return click.option(option, field.name, multiple=True, help=f"{field.description} Repeat it for more.")
    if field.is_flag:
        return click.option(option, field.name, default=None, help=field.description)
    kind: Any = int if field.is_number else None
    if field.choices:
        kind = (_ChoiceOrEmpty if can_clear else click.Choice)(field.choices)
    return click.option(option, field.name, type=kind, required=is_required, help=field.description)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The values of the given options. Empty ones become null, which clears a setting."""
    return {name: value or None for name, value in options.items() if value is not None}


def columns_of(
    struct: type[T],
    *,
    first: Sequence[ValueColumn[T]] = (),
    last: Sequence[ValueColumn[T]] = (),
    without: Sequence[str] = (),
    **others: ValueColumn[T],
) -> tuple[ValueColumn[T], ...]:
    """A column for every field, in their order, except for those in `without`.

    `first`, `last` and `others` have columns that do more than show a value. They replace the field of their name.
    """
    fields, own = fields_of(struct), {column.name for column in (*first, *last)} | {*without}
    derived = (
        others.get(name) or ValueColumn(name, attrgetter(name), head=fields[name].column if name in fields else None)
        for name in struct.__struct_fields__
        if name not in own
    )
    return (*first, *derived, *last)
