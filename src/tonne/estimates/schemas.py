"""Estimates on the wire."""

from decimal import Decimal
from typing import Annotated

import msgspec

from tonne.base.clock import to_wire
from tonne.base.mass import MassUnit, format_tonnes
from tonne.catalog.schemas import DecimalText, QuoteOut, Timestamp, Tonnes
from tonne.estimates.model import Estimate
from tonne.http.client_fields import IdempotencyKey, Metadata


class MassIn(msgspec.Struct, forbid_unknown_fields=True):
    amount: Annotated[Decimal, msgspec.Meta(description="Cut to whole grams.", examples=["1.105697"])]
    unit: MassUnit


class EstimateIn(msgspec.Struct, forbid_unknown_fields=True):
    mass: MassIn
    description: Annotated[str, msgspec.Meta(max_length=1000, examples=["Flight BER to LIS, economy"])] | None = None
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = None


class MassOut(msgspec.Struct):
    amount: DecimalText
    unit: MassUnit


class EstimateOut(msgspec.Struct):
    """`quote` is what an order on it would cost now with the default selection; null while there is no price."""

    id: str
    idempotency_key: str
    mass: MassOut
    quantity: Tonnes
    description: str | None
    metadata: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
    created_at: Timestamp
    quote: QuoteOut | None


def estimate_out(estimate: Estimate, quote: QuoteOut | None) -> EstimateOut:
    return EstimateOut(
        id=estimate.id,
        idempotency_key=estimate.idempotency_key,
        mass=MassOut(estimate.mass_amount, estimate.mass_unit),
        quantity=format_tonnes(estimate.mass_grams),
        description=estimate.description,
        metadata=msgspec.Raw(estimate.metadata.encode()),
        created_at=to_wire(estimate.created_at),
        quote=quote,
    )
