"""What a mass costs when it is split over bundles."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GRAMS_PER_TONNE = 1_000_000
RATE_UNIT = 100_000


class Bundle(NamedTuple):
    id: str
    name: str
    primary_image: str | None
    unit_price_minor: int
    available_grams: int


class PricedLine(NamedTuple):
    """In the order of the columns of `order_lines` after its key."""

    bundle_id: str
    bundle_name: str
    primary_image: str | None
    quantity_grams: int
    unit_price_minor: int
    gross_unit_price_minor: int
    offset_cost_minor: int
    insufficient_available_quantity: bool


class Priced(NamedTuple):
    quantity_grams: int
    offset_cost_minor: int
    commission_minor: int
    total_cost_minor: int
    tax_minor: int
    lines: list[PricedLine]


def price(
    mass_grams: int, selection: Sequence[tuple[str, int]], bundles: Mapping[str, Bundle], fee_rate: int, tax_rate: int
) -> Priced:
    """The selection has bundles of the catalogue with their weights."""
    chosen = [bundles[bundle_id] for bundle_id, _ in selection]
    grams = apportion(mass_grams, [weight for _, weight in selection])
    gross = [_half_up(bundle.unit_price_minor * RATE_UNIT, RATE_UNIT - fee_rate) for bundle in chosen]
    net_sums = [mass * bundle.unit_price_minor for mass, bundle in zip(grams, chosen, strict=True)]
    total = -(-sum(mass * price for mass, price in zip(grams, gross, strict=True)) // GRAMS_PER_TONNE)
    offset_cost = _half_up(sum(net_sums), GRAMS_PER_TONNE) if fee_rate else total
    costs = apportion(offset_cost, net_sums)
    lines = [
        PricedLine(
            bundle.id,
            bundle.name,
            bundle.primary_image,
            grams[place],
            bundle.unit_price_minor,
            gross[place],
            costs[place],
            bundle.available_grams < grams[place],
        )
        for place, bundle in enumerate(chosen)
    ]
    return Priced(mass_grams, offset_cost, total - offset_cost, total, _half_up(total * tax_rate, RATE_UNIT), lines)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Split by largest remainder."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda place: -(total * weights[place] % whole))
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
