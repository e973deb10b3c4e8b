"""Money in integer minor units, and how amounts are rounded and split."""

from collections.abc import Sequence

from tonne.base.currency import DECIMALS
from tonne.base.decimals import format_scaled


def format_money(amount_minor: int, currency: str) -> str:
    """With exactly the currency's decimals: `7176.00`, or `7176` in JPY."""
    return format_scaled(amount_minor, DECIMALS[currency])


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
