"""Types of arguments and options that several commands share."""

from datetime import datetime
from decimal import Decimal, InvalidOperation

import click

from tonne.accounts.errors import FeeRateInvalid
from tonne.accounts.open_organisation import check_fee_rate
from tonne.base.scope import Mode
from tonne.catalog.selection import BundleChoiceIn
from tonne.gateways.mail import is_mail_address
from tonne.sheets.columns import CellError, parse_time

MODE = click.Choice([mode.value for mode in Mode])


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


FEE_RATE, EMAIL, BUNDLE_CHOICE, MOMENT = _FeeRate(), _Email(), _BundleChoice(), _Moment()
