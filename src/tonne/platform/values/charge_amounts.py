"""Which amounts a card can be charged, by currency. The rules are those of Stripe, and apply in both modes. No I/O."""

from collections.abc import Mapping

from tonne.platform.values.amounts import DECIMALS

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
