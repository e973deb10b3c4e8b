"""Record an estimate, once per idempotency key."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

from tonne.platform.db.database import Connection
from tonne.platform.db.idempotency import Idempotency, create_once
from tonne.platform.values.amounts import GRAMS_PER_UNIT, MAX_GRAMS, MassUnit, to_grams
from tonne.platform.values.context import Scope, new_id
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit, cut_quantity
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.model import Estimate, EstimateMassUnit, mass_text
from tonne.selling.estimates.store import find_by_key, insert_estimate


def mass_in_grams(amount: Decimal, unit: MassUnit) -> int:
    mass_grams = to_grams(amount, unit)
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise MassInvalid(field="mass.amount")
    return mass_grams


def new_estimate(
    scope: Scope,
    amount: Decimal,
    unit: MassUnit,
    description: str | None,
    *,
    now: datetime,
    idempotency_key: str | None = None,
    metadata: str = "{}",
    quantity_trunc: QuantityUnit | None = None,
    shown_unit: EstimateMassUnit | None = None,
) -> Estimate:
    """Without `shown_unit`, the mass is shown as it was sent."""
    mass_grams = mass_in_grams(amount, unit)
    if not cut_quantity(mass_grams, quantity_trunc):
        raise MassInvalid(
            f"The mass is less than 1 {quantity_trunc}. Send a larger mass, or a smaller quantity_trunc.",
            field="mass.amount",
        )
    return Estimate(
        scope=scope,
        id=new_id("est"),
        idempotency_key=idempotency_key or new_id("auto"),
        mass_grams=mass_grams,
        mass_amount=f"{amount:f}" if shown_unit is None else mass_text(amount * GRAMS_PER_UNIT[unit], shown_unit),
        mass_unit=shown_unit or EstimateMassUnit(unit),
        description=description,
        metadata=metadata,
        created_at=now,
        quantity_trunc=quantity_trunc,
    )


async def record_estimate(
    tx: Connection, scope: Scope, amount: Decimal, unit: MassUnit, description: str | None, *, now: datetime
) -> Estimate:
    """For the operator, who sends no idempotency key."""
    estimate = new_estimate(scope, amount, unit, description, now=now)
    await insert_estimate(tx, estimate, hashlib.sha256(estimate.idempotency_key.encode()).digest())
    return estimate


async def record_estimate_once(
    connection: Connection, scope: Scope, idempotency: Idempotency, compose: Callable[[], Estimate]
) -> tuple[Estimate, bytes | None]:
    """The new estimate, or the one with this key and the digest of the request that created it."""

    async def create() -> Estimate | None:
        estimate = compose()
        return estimate if await insert_estimate(connection, estimate, idempotency.digest) else None

    return await create_once(idempotency.key, create, lambda key: find_by_key(connection, scope, key))
