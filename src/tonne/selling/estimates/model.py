"""Estimates: emissions that a client has calculated."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.context import Scope
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit


class EstimateMassUnit(StrEnum):
    """Tonne calculates in kilograms. A request may ask for another unit."""

    MG = "mg"
    G = "g"
    KG = "kg"
    T = "t"


_UNITS_PER_GRAM = {
    EstimateMassUnit.MG: Decimal(1000),
    EstimateMassUnit.G: Decimal(1),
    EstimateMassUnit.KG: Decimal("0.001"),
    EstimateMassUnit.T: Decimal("0.000001"),
}


def mass_text(grams: Decimal, unit: EstimateMassUnit) -> str:
    """The mass in this unit, without an exponent and trailing zeros."""
    text = f"{grams * _UNITS_PER_GRAM[unit]:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Estimate(Struct, frozen=True):
    """`mass_amount` and `mass_unit` are as sent, or in the unit that the request asks for.

    An order for the estimate buys `mass_grams`.
    """

    scope: Scope
    id: str
    idempotency_key: str
    mass_grams: int
    mass_amount: str
    mass_unit: EstimateMassUnit
    description: str | None
    # The client's JSON, as text.
    metadata: str
    created_at: datetime
    # The unit that the quantity of its quote is cut to.
    quantity_trunc: QuantityUnit | None = None
