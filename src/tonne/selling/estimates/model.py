"""Estimates: emissions that a client has calculated."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.values.amounts import MassUnit
from tonne.platform.values.context import Scope
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit


class Estimate(Struct, frozen=True):
    """`mass_amount` and `mass_unit` are as sent; an order for the estimate buys `mass_grams`."""

    scope: Scope
    id: str
    idempotency_key: str
    mass_grams: int
    mass_amount: str
    mass_unit: MassUnit
    description: str | None
    # The client's JSON, as text.
    metadata: str
    created_at: datetime
    # The unit that the quantity of its quote is cut to.
    quantity_trunc: QuantityUnit | None = None
