"""Money in integer minor units, and how amounts are rounded and split."""

from collections.abc import Sequence

from tonne.platform.values.currency import DECIMALS
from tonne.platform.values.decimals import format_scaled, parse_decimal, scaled


def format_money(amount_minor: int, currency: str) -> str:
    """With exactly the currency's decimals: `7176.00`, or `7176` in JPY."""
    return format_scaled(amount_minor, DECIMALS[currency])


def parse_amounts(text: str) -> dict[str, int]:
    """`EUR 5.00, JPY 500`: minor units by currency. Raises ValueError."""
    amounts: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        currency, _, amount = part.partition(" ")
        number = parse_decimal(amount.strip())
        minor = None if number is None or currency not in DECIMALS else scaled(number, DECIMALS[currency])
        if minor is None:
            raise ValueError(f"{part!r} is not an amount such as EUR 5.00")
        if currency in amounts:
            raise ValueError(f"{currency} is given twice")
        amounts[currency] = minor
    return amounts


def half_up(numerator: int, denominator: int) -> int:
    """The quotient of two non-negative numbers, rounded half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Split `total` in proportion to `weights` by largest remainder, ties in list order. The parts sum to `total`."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: total * weights[i] % whole, reverse=True)
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts
