"""Request and response bodies that all kinds of calculated estimates share."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey, Metadata
from tonne.platform.http.errors import RefusalOut
from tonne.platform.http.openapi.components import any_of
from tonne.platform.values.context import Timestamp
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import DecimalText, EstimateId, QuoteOut, Tonnes
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.estimates.factors.schemas import EmissionFactorOut
from tonne.selling.estimates.model import EstimateMassUnit
from tonne.selling.estimates.schemas import MetadataOut, ShownMassUnit


class EstimateMassOut(msgspec.Struct):
    amount: Annotated[DecimalText, Meta(description="Exact to the gram.", examples=["292.125"])]
    unit: Annotated[EstimateMassUnit, Meta(description="The unit of `amount`.", examples=["kg"])]


class CommonIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What every kind of estimate takes. Selection and unit are used for the quote only: orders have their own."""

    name: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(description="What the estimate is about, in your words.", examples=["Trip to the conference"]),
    ] = None
    metadata: Metadata | None = None
    idempotency_key: (
        Annotated[
            IdempotencyKey,
            Meta(
                description="Unique per account. The same request with it returns the same estimate; another is "
                "refused with 409."
            ),
        ]
        | None
    ) = None
    bundle_selection: Annotated[
        list[BundleChoiceIn] | None,
        Meta(description="The bundles of the quote. Omit it to use the account's default selection."),
    ] = None
    quantity_trunc: Annotated[
        QuantityUnit | None,
        Meta(description="Cuts the quantity of the quote to whole grams, kilograms or tonnes.", examples=["kg"]),
    ] = None
    estimate_mass_unit: ShownMassUnit = None


class QuoteOptionsIn(msgspec.Struct):
    """Those fields of a stored request that its quote depends on."""

    bundle_selection: list[BundleChoiceIn] | None = None
    quantity_trunc: QuantityUnit | None = None


class StepFactorOut(msgspec.Struct):
    """The emission factor of a step, as it was then. `emission_factors` has all of it."""

    id: Annotated[str, Meta(description="Id of the factor.", examples=["owid-2023/electricity-deu/kwh"])]
    version: Annotated[int, Meta(description="Version of the factor.", examples=[1])]
    source: Annotated[str, Meta(description="The publication.", examples=["Our World in Data, energy dataset"])]
    publication_year: Annotated[int, Meta(description="Year of the data.", examples=[2023])]
    licence: Annotated[str, Meta(description="SPDX code of the licence.", examples=["CC-BY-4.0"])]


class ExplainStepOut(msgspec.Struct):
    """One step of the calculation. Read from the first to the last, the steps lead to `mass`."""

    description: Annotated[str, Meta(description="What the step does.", examples=["Electricity of the grid"])]
    formula: Annotated[
        str,
        Meta(description="The arithmetic, with its numbers.", examples=["1000 kWh × 0.38095 kg per kWh = 380.95 kg"]),
    ]
    amount: Annotated[str | None, Meta(description="The result, or null if it is not a number.", examples=["380.95"])]
    unit: Annotated[str | None, Meta(description="The unit of `amount`, or null.", examples=["kg"])]
    emission_factor: Annotated[StepFactorOut | None, Meta(description="The factor of the step, or null.")]


# The field `request` of every kind, whose type is the kind's request.
AS_SENT = Meta(description="The request that this version was calculated from, as it was sent.")
EstimateQuoteOut = Annotated[
    Any,
    Meta(
        description="What retiring as much costs now, or `error` and `errors` while there is no price.",
        extra_json_schema=any_of(QuoteOut, RefusalOut),
    ),
]


class CalculatedOut(msgspec.Struct, kw_only=True):
    id: Annotated[EstimateId, Meta(description="Id of the estimate.")]
    kind: Annotated[str, Meta(description="The kind of estimate.", examples=["electricity"])]
    version: Annotated[int, Meta(description="Raised by every PUT that changes something.", examples=[1])]
    name: Annotated[str | None, Meta(description="As it was sent, or null.", examples=["Trip to the conference"])]
    mass: Annotated[EstimateMassOut, Meta(description="The mass of CO2 equivalent.")]
    quantity: Annotated[Tonnes, Meta(description="The same in tonnes.", examples=["0.292125"])]
    quote: EstimateQuoteOut
    metadata: MetadataOut
    idempotency_key: Annotated[
        str | msgspec.UnsetType, Meta(description="Only if one was sent.", examples=["trip-2026-17"])
    ] = msgspec.UNSET
    created_at: Annotated[Timestamp, Meta(description="When the estimate was created.")]
    calculated_at: Annotated[Timestamp, Meta(description="When this version was calculated.")]
    explain: Annotated[list[ExplainStepOut], Meta(description="The calculation, step by step.")]
    emission_factors: Annotated[
        list[EmissionFactorOut], Meta(description="The factors that were used, as they were then.")
    ]


def read_moment(value: Any) -> datetime:
    """A time with its zone, or a date, which means midnight UTC."""
    text = f"{value}T00:00:00Z" if isinstance(value, str) and len(value) == 10 else value
    try:
        moment: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
        moment = moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError('expected a time with its zone, such as "2026-12-31T23:59:59Z", or a date') from error
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


Moment = Annotated[datetime, read_moment, Meta(examples=["2026-11-15T10:00:00Z"])]
