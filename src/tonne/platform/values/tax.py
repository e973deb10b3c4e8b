"""Tax on amounts of money: treatments, rates and rounding. Exact integers, no I/O."""

from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from tonne.platform.values.amounts import half_up


class TaxTreatment(StrEnum):
    """How a sale is taxed. Only `standard` adds an amount."""

    # The seller does not charge tax and documents do not mention it.
    NONE = "none"
    STANDARD = "standard"
    # The buyer accounts for the tax.
    REVERSE_CHARGE = "reverse_charge"
    EXEMPT = "exempt"
    OUTSIDE_SCOPE = "outside_scope"


class TaxTerms(Struct, frozen=True):
    """`rate` is a share: 19 % is Fraction(19, 100). It is zero unless the treatment is `standard`."""

    treatment: TaxTreatment = TaxTreatment.NONE
    rate: Fraction = Fraction(0)


NO_TAX = TaxTerms()


def tax_on(net_minor: int, treatment: TaxTreatment, rate: Fraction, *, unit: int = 1) -> int:
    """The tax on a net amount, rounded half up to a multiple of `unit` minor units.

    Call it once per rate of a document: the sum of the taxes of parts can differ from the tax on their sum.
    """
    if treatment is not TaxTreatment.STANDARD:
        return 0
    return half_up(net_minor * rate.numerator, rate.denominator * unit) * unit


def largest_net(gross_minor: int, treatment: TaxTreatment, rate: Fraction, *, unit: int = 1) -> int:
    """The largest multiple of `unit` that, with the tax on it, does not exceed `gross_minor`."""
    units = gross_minor // unit
    if treatment is not TaxTreatment.STANDARD:
        return units * unit
    # n + floor(n * rate + 1/2) <= units is the same as 2n(1 + rate) < 2 * units + 1.
    factor = 2 * (1 + rate)
    return ((2 * units + 1) * factor.denominator - 1) // factor.numerator * unit


def format_rate(rate: Fraction) -> str:
    """In per cent, without trailing zeros: `19`, `8.1`, `0.125`. Rates have at most 5 decimals as a share."""
    thousandths = int(rate * 100_000)
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
