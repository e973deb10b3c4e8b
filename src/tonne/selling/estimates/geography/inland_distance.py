"""Distances by road and rail: the great circle, lengthened by an assumption about how much longer real ways are."""

from decimal import Decimal

# An assumption of our own, not a published figure: docs/estimates.md says so, and `explain` shows it. Clients that know
# the distance send it instead.
DETOUR = Decimal("1.4")


def with_detour(straight: Decimal) -> Decimal:
    return straight * DETOUR
