"""The tax of documents in a foreign currency, stated in the national one (Art. 230)."""

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple, TypeVar

from tonne.money.invoices.documents.record import HomeTax, InvoiceRecord, InvoiceTax
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, format_money
from tonne.platform.values.context import replace
from tonne.selling.catalogue.prices import reference_rates
from tonne.selling.catalogue.prices.reference_rates import HomeRate, home_currency_of

Tax = TypeVar("Tax", bound=InvoiceTax)


class RateKey(NamedTuple):
    """Which rate a document needs."""

    currency: str
    day: date


def rate_key(
    currency: str,
    settings: Settings,
    now: datetime,
    *,
    paid_at: datetime | None = None,
    supplied_on: date | None = None,
) -> RateKey:
    """For a document that is issued now: the rate of its tax point. If the tax becomes due later, that of today."""
    today = now.astimezone(UTC).date()
    paid_on = None if paid_at is None else paid_at.astimezone(UTC).date()
    due_on = {"payment": paid_on, "supply": supplied_on}.get(settings.tax_point)
    return RateKey(currency, min(today, due_on or today))


async def find_home_rates(
    connection: Connection, keys: Mapping[str, RateKey], settings: Settings
) -> dict[str, HomeRate]:
    """By the id of each key, as far as they are known. No query if all are in the national currency."""
    home, found = home_currency_of(settings), dict[str, HomeRate]()
    for day in {key.day for key in keys.values()}:
        currencies = {key.currency for key in keys.values() if key.day == day}
        rates = await reference_rates.find_home_rates(connection, currencies, home, day)
        found |= {id_: rates[key.currency] for id_, key in keys.items() if key.day == day and key.currency in rates}
    return found


def lacks_rate(currency: str, settings: Settings, rate: HomeRate | None) -> str | None:
    """The currency, if a document in it needs a rate that is not known."""
    return None if rate is not None or home_currency_of(settings) in {None, currency} else currency


def with_home_tax(record: InvoiceRecord, rate: HomeRate | None) -> InvoiceRecord:
    """The record with its tax in the national currency, too. Without a rate, or without tax lines, it is as it was."""
    if rate is None or not record.taxes:
        return record
    taxes = [_converted(tax, rate, record.currency) for tax in record.taxes]
    return replace(record, taxes=taxes, home=_home_tax(rate, record.currency, taxes))


def homes_of_credit(issued: InvoiceRecord, taxes: list[InvoiceTax]) -> tuple[list[InvoiceTax], HomeTax | None]:
    """What is credited, in the national currency at the rate of its invoice."""
    if issued.home is None:
        return taxes, None
    rate = issued.home.home_rate
    converted = [_converted(tax, rate, issued.currency) for tax in taxes]
    return converted, _home_tax(rate, issued.currency, converted)


def _converted(tax: Tax, rate: HomeRate, currency: str) -> Tax:
    home = _home_of(rate, currency)

    def spell(amount: str) -> str:
        minor = int(Decimal(amount).scaleb(DECIMALS[currency]))
        return format_money(rate.convert(minor, currency), home)

    return replace(tax, home_net=spell(tax.net), home_tax=spell(tax.tax))


def _home_tax(rate: HomeRate, currency: str, taxes: Collection[InvoiceTax]) -> HomeTax:
    total = sum((Decimal(tax.home_tax or 0) for tax in taxes), Decimal(0))
    home = _home_of(rate, currency)
    return HomeTax(
        currency=home,
        tax=f"{total:.{DECIMALS[home]}f}",
        rate=f"{rate.rate.normalize():f}",
        base=rate.base,
        quote=rate.quote,
        source=rate.source,
        on=rate.day.isoformat(),
    )


def _home_of(rate: HomeRate, currency: str) -> str:
    return rate.quote if currency == rate.base else rate.base
