"""Divide an amount among parts without losing or adding a minor unit."""

from collections.abc import Sequence


def apportion(total_minor: int, weights: Sequence[int]) -> list[int]:
    """Parts that sum to `total_minor`, each proportional to its weight, rounded by largest remainder.

    No part is off by one minor unit or more. Among equal remainders, earlier parts are rounded up. If all weights are
    zero, the parts are equal. Raises ValueError for negative values, and if there is something to divide but no part.
    """
    if total_minor < 0 or any(weight < 0 for weight in weights):
        raise ValueError("amounts and weights must not be negative")
    if not weights:
        if total_minor:
            raise ValueError("there is no part to assign the amount to")
        return []
    shares = list(weights) if any(weights) else [1] * len(weights)
    sum_of_shares = sum(shares)
    parts = [total_minor * share // sum_of_shares for share in shares]
    missing = total_minor - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda i: -(total_minor * shares[i] % sum_of_shares))
    for position in by_remainder[:missing]:
        parts[position] += 1
    return parts
