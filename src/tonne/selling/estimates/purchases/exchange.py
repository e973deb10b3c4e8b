"""Converts the value of a purchase to the currency of a factor, by the exchange rates of the catalogue."""

from datetime import date
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

from tonne.selling.catalogue.model import Catalogue
from tonne.selling.estimates.purchases.errors import ExchangeRateNotFound


class Conversion(Struct, frozen=True):
    """One unit of the value's currency costs `rate` units of the factor's. `day` is that of the older of two rates."""

    rate: Decimal
    day: date


def conversion(currency: str, to: str, catalogue: Catalogue) -> Conversion | None:
    """None if nothing has to be converted. Raises ExchangeRateNotFound."""
    if currency == to:
        return None
    (base, base_day), (quote, quote_day) = (_per_catalogue_unit(each, catalogue) for each in (currency, to))
    days = [day for day in (base_day, quote_day) if day is not None]
    return Conversion((quote / base).quantize(Decimal("0.00000001"), ROUND_HALF_UP), min(days))


def _per_catalogue_unit(currency: str, catalogue: Catalogue) -> tuple[Decimal, date | None]:
    """Units of the currency for one unit of the catalogue's, and the day of that rate."""
    if currency == catalogue.currency:
        return Decimal(1), None
    rate = catalogue.rates.get(currency)
    if rate is None:
        raise ExchangeRateNotFound(
            f"There is no exchange rate from {catalogue.currency} to {currency}. Send the value in another currency.",
            field="value.currency",
        )
    if catalogue.rates_since is not None and rate.as_of < catalogue.rates_since:
        raise ExchangeRateNotFound(
            f"The exchange rate from {catalogue.currency} to {currency} is too old: it is of {rate.as_of:%Y-%m-%d}. "
            "Send the value in another currency, or try again when there is a new one.",
            field="value.currency",
        )
    return rate.rate, rate.as_of.date()
