"""Mass in integer grams; in tonnes in the API."""

from decimal import Decimal
from enum import StrEnum

from tonne.base.decimals import format_scaled

GRAMS_PER_TONNE = 1_000_000
MAX_GRAMS = 100_000_000 * GRAMS_PER_TONNE


class MassUnit(StrEnum):
    G = "g"
    KG = "kg"
    T = "t"


GRAMS_PER_UNIT = {MassUnit.G: 1, MassUnit.KG: 1_000, MassUnit.T: GRAMS_PER_TONNE}


def to_grams(amount: Decimal, unit: MassUnit) -> int:
    """Truncate to whole grams, so that nobody pays for more than they asked for."""
    return int(amount * GRAMS_PER_UNIT[unit])


def format_tonnes(mass_grams: int) -> str:
    """Without trailing zeros, at most six decimals: `1040`, `1.105697`."""
    text = format_scaled(mass_grams, 6)
    return text.rstrip("0").rstrip(".")
