import hashlib
from datetime import datetime
from decimal import Decimal

from tonne.base.ids import new_id
from tonne.base.mass import MAX_GRAMS, MassUnit, to_grams
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.estimates.errors import MassInvalid
from tonne.estimates.model import Estimate
from tonne.estimates.store import insert_estimate


def mass_in_grams(amount: Decimal, unit: MassUnit) -> int:
    mass_grams = to_grams(amount, unit)
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise MassInvalid(field="mass.amount")
    return mass_grams


async def record_estimate(
    tx: Connection, scope: Scope, amount: Decimal, unit: MassUnit, description: str | None, *, now: datetime
) -> Estimate:
    """For the operator, who sends no idempotency key."""
    key = new_id("auto")
    estimate = Estimate(
        scope=scope,
        id=new_id("est"),
        idempotency_key=key,
        mass_grams=mass_in_grams(amount, unit),
        mass_amount=f"{amount:f}",
        mass_unit=unit,
        description=description,
        metadata="{}",
        created_at=now,
    )
    await insert_estimate(tx, estimate, hashlib.sha256(key.encode()).digest())
    return estimate
