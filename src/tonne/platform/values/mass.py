"""Mass in integer grams; in tonnes in the API."""

from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from tonne.platform.values.decimals import format_scaled

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


def people_mass(tonnes: Decimal) -> tuple[Decimal, str]:
    """Rounded for people, with its unit: three significant digits, the whole part in full, kilograms below a tonne."""
    kilograms = _round(tonnes * 1000)
    return (kilograms, "kg") if 0 < abs(kilograms) < 1000 else (_round(tonnes), "t")


def _round(amount: Decimal) -> Decimal:
    # `adjusted` is the power of ten of the first digit: 0 for 4.2, 2 for 420.
    decimals = max(0, 2 - amount.adjusted()) if amount else 0
    return amount.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP).normalize() + 0
