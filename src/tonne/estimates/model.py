"""An emission calculation made elsewhere."""

from dataclasses import dataclass
from datetime import datetime

from tonne.base.mass import MassUnit
from tonne.base.scope import Scope


@dataclass(frozen=True, slots=True)
class Estimate:
    """`mass_amount` and `mass_unit` as they were sent; `mass_grams` is what an order on it buys."""

    scope: Scope
    id: str
    idempotency_key: str
    mass_grams: int
    mass_amount: str
    mass_unit: MassUnit
    description: str | None
    # JSON text, the client's own.
    metadata: str
    created_at: datetime
