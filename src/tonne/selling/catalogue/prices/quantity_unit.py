"""The unit that a quantity is cut to before it is split over bundles."""

from enum import StrEnum

from tonne.platform.values.amounts import GRAMS_PER_TONNE


class QuantityUnit(StrEnum):
    """As clients name it in `quantity_trunc`."""

    GRAM = "g"
    KILOGRAM = "kg"
    TONNE = "t"


GRAMS_OF_UNIT = {QuantityUnit.GRAM: 1, QuantityUnit.KILOGRAM: 1_000, QuantityUnit.TONNE: GRAMS_PER_TONNE}


def cut_quantity(grams: int, unit: QuantityUnit | None) -> int:
    """Cut down to whole units; None leaves it as it is. The result is 0 if it is less than one unit."""
    return grams if unit is None else grams - grams % GRAMS_OF_UNIT[unit]
