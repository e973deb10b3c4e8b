"""Decimal numbers as text, money in integer minor units and mass in integer grams. Nothing is a float.

Also tax, with its rounding, and which amounts a card can be charged, by the rules of Stripe in both modes. No I/O.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

# No sign and no exponent. 15 digits before the point and 12 after cover every amount, and bound the cost of arithmetic.
DECIMAL_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,12})?$"
_PLAIN = re.compile(DECIMAL_PATTERN.removeprefix("^").removesuffix("$"), re.ASCII)


def parse_decimal(text: str) -> Decimal | None:
    """The number, or None if `text` is not a plain decimal within the bounds."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def parse_typed(text: str) -> Decimal | None:
    """A number as people type it: a point or a comma is the decimal separator.

    Thousands separators are ambiguous, and refused.
    """
    stripped = text.strip()
    return parse_decimal(stripped.replace(",", ".")) if stripped.count(",") <= 1 else None


def scaled(number: Decimal, digits: int) -> int | None:
    """`number` x 10^digits as an integer, or None if digits would be lost."""
    shifted = number.scaleb(digits)
    whole = int(shifted)
    return whole if whole == shifted else None


def format_scaled(whole: int, digits: int) -> str:
    """The inverse of `scaled`: 717600 with 2 digits is `7176.00`."""
    if digits == 0 or whole < 0:
        return str(whole) if digits == 0 else f"-{format_scaled(-whole, digits)}"
    text = str(whole).zfill(digits + 1)
    return f"{text[:-digits]}.{text[-digits:]}"


# ISO 4217 currencies by their numbers of decimals.
_DECIMALS_0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_DECIMALS_3 = "BHD IQD JOD KWD LYD OMR TND"
_DECIMALS_2 = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC
    CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR
    JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD
    NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN
    SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD YER ZAR ZMW ZWG
"""

DECIMALS: dict[str, int] = {
    **dict.fromkeys(_DECIMALS_0.split(), 0),
    **dict.fromkeys(_DECIMALS_2.split(), 2),
    **dict.fromkeys(_DECIMALS_3.split(), 3),
}


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
    left, parts, remainders = total, [], []
    for weight in weights:
        part, remainder = divmod(total * weight, whole)
        parts.append(part)
        remainders.append(remainder)
        left -= part
    if left:
        for i in sorted(range(len(weights)), key=remainders.__getitem__, reverse=True)[:left]:
            parts[i] += 1
    return parts


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


# Stripe has no decimals for MGA, which has two.
_UNITS: Mapping[str, int] = {"MGA": 100}
# Card networks have no third decimal: Stripe requires it to be zero.
_UNIT_OF_THREE_DECIMALS = 10

_AT_LEAST_50 = "ARS AUD BRL CAD CHF COP EUR IDR ILS INR JPY KRW NZD PHP RUB SGD USD ZAR"
# The smallest charge that Stripe accepts, in minor units. Stripe lists no other currencies: what applies to them
# depends on the currency of the seller's bank account.
_MINIMUM: Mapping[str, int] = {
    **dict.fromkeys(_AT_LEAST_50.split(), 50),
    **dict.fromkeys(["AED", "MYR", "PLN", "RON"], 200),
    **dict.fromkeys(["NOK", "SEK"], 300),
    **dict.fromkeys(["MXN", "THB"], 1000),
    "CZK": 1500,
    "DKK": 250,
    "GBP": 30,
    "HKD": 400,
    "HUF": 17_500,
}


def charge_unit(currency: str) -> int:
    """The unit, in minor units, that every charge in this currency must be a multiple of."""
    return _UNITS.get(currency, _UNIT_OF_THREE_DECIMALS if DECIMALS[currency] == 3 else 1)


def minimum_charge(currency: str) -> int:
    """The smallest amount that a card can be charged, in minor units."""
    return max(_MINIMUM.get(currency, 1), charge_unit(currency))


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
