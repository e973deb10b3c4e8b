"""Request and response bodies of estimates."""

from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey, Metadata
from tonne.platform.values.amounts import MassUnit, format_tonnes
from tonne.platform.values.context import Timestamp, to_wire
from tonne.platform.web.fields import described
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import DecimalText, EstimateId, QuoteOut, Tonnes
from tonne.selling.estimates.model import Estimate, EstimateMassUnit

MetadataOut = Annotated[
    msgspec.Raw,
    Meta(
        description="The metadata as you sent it; `{}` if you sent none.",
        examples=[{"invoice": "A-17", "cost_centre": 4711}],
        extra_json_schema={"type": "object", "additionalProperties": True},
    ),
]


ShownMassUnit = Annotated[
    EstimateMassUnit | None,
    Meta(description="The unit in which masses of the response are written.", examples=["kg"]),
]


class MassIn(msgspec.Struct, forbid_unknown_fields=True):
    amount: Annotated[Decimal, Meta(description="A decimal string. Fractions of a gram are cut.", examples=["1040"])]
    unit: Annotated[MassUnit, Meta(description="Grams, kilograms or tonnes.", examples=["t"])]


class EstimateIn(msgspec.Struct, forbid_unknown_fields=True):
    mass: Annotated[MassIn, Meta(description="The mass of CO2 equivalent.")]
    description: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        described("What caused the emissions.", example="Flight BER to LIS, economy", label="Description"),
    ] = None
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = None
    quantity_trunc: Annotated[
        QuantityUnit | None,
        Meta(
            description="Cut the quantity of the quote down to whole grams, kilograms or tonnes before it is split "
            "over the bundles. Send it again with the order.",
            examples=["kg"],
        ),
    ] = None
    estimate_mass_unit: ShownMassUnit = None


class MassOut(msgspec.Struct):
    amount: Annotated[
        DecimalText, Meta(description="The amount as it was sent, or in `estimate_mass_unit`.", examples=["1040"])
    ]
    unit: Annotated[EstimateMassUnit, Meta(description="The unit of `amount`.", examples=["t"])]


class EstimateOut(msgspec.Struct):
    id: Annotated[EstimateId, Meta(description="Id of the estimate.")]
    idempotency_key: Annotated[
        str, Meta(description="The key it was created with, or a generated one.", examples=["footprint-2026"])
    ]
    mass: Annotated[MassOut, Meta(description="The mass of CO2 equivalent.")]
    quantity: Annotated[Tonnes, Meta(description="The mass in tonnes.", examples=["1040"])]
    description: Annotated[
        str | None, Meta(description="What caused the emissions, or null.", examples=["Flight BER to LIS, economy"])
    ]
    metadata: MetadataOut
    created_at: Annotated[Timestamp, Meta(description="When the estimate was created.")]
    quote: Annotated[
        QuoteOut | None,
        Meta(description="What retiring as much costs now, with the default selection; null without a price."),
    ]


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
