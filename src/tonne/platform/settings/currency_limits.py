"""A setting with one amount, or one per currency: `500` or `EUR 500, JPY 80000`."""

from decimal import Decimal

from tonne.platform.values.amounts import DECIMALS, parse_decimal, scaled

# The amount that applies to all other currencies.
ANY = ""


def parse_limits(text: str) -> dict[str, Decimal]:
    """The amounts by currency. Raises ValueError with a message for the operator."""
    found: dict[str, Decimal] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        currency, _, number = part.rpartition(" ")
        currency = currency.strip().upper()
        amount = parse_decimal(number)
        if amount is None or (currency and currency not in DECIMALS) or currency in found:
            raise ValueError(f"{part!r} is not an amount with an optional currency")
        if currency and scaled(amount, DECIMALS[currency]) is None:
            raise ValueError(f"{part!r} has more decimals than {currency}")
        found[currency] = amount
    return found


def limit_minor(text: str, currency: str) -> int | None:
    """The amount for a currency in minor units, rounded down; None if there is none."""
    limits = parse_limits(text)
    amount = limits.get(currency, limits.get(ANY))
    return None if amount is None else int(amount.scaleb(DECIMALS[currency]))
