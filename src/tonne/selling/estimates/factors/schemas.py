"""The wire format of emission factors."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.values.context import Timestamp, same_named, to_wire
from tonne.selling.estimates.factors.model import Factor

DecimalText = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$")]
# What the licences demand wherever the factors are shown.
ATTRIBUTIONS = {
    "OGL-UK-3.0": "Contains public sector information licensed under the Open Government Licence v3.0: {source}.",
    "CC-BY-4.0": "{source}, licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/).",
}


class NumeratorUnit(StrEnum):
    KG = "kg"


class EmissionFactorOut(msgspec.Struct, kw_only=True):
    id: Annotated[
        str, Meta(description="Id of the factor. It may contain slashes.", examples=["owid-2023/electricity-deu/kwh"])
    ]
    name: Annotated[str, Meta(description="The activity.", examples=["Germany grid, lifecycle average"])]
    category: Annotated[str | None, Meta(description="Group of activities.", examples=["Electricity"])]
    value: Annotated[
        DecimalText, Meta(description="Kilograms of CO2 equivalent per `denominator_unit`.", examples=["0.38095"])
    ]
    well_to_tank_value: Annotated[
        DecimalText | None,
        Meta(
            description="The same for making and transporting the fuel. Null if it is unknown or part of `value`.",
            examples=[None, "0.02249"],
        ),
    ]
    numerator_unit: Annotated[NumeratorUnit, Meta(description="Unit of the emissions.", examples=["kg"])]
    denominator_unit: Annotated[str, Meta(description="Unit of the activity.", examples=["kWh"])]
    region: Annotated[str, Meta(description="ISO 3166 alpha-3 code, or WLD for the world.", examples=["DEU"])]
    source: Annotated[str, Meta(description="Code of the publisher; `beis` for the UK government.", examples=["ember"])]
    source_version: Annotated[
        str, Meta(description="The publication.", examples=["Our World in Data, energy dataset (Ember)"])
    ]
    publication_year: Annotated[int, Meta(description="Year of the data.", examples=[2023])]
    version: Annotated[
        int, Meta(description="Raised when an import changes the factor. Estimates keep theirs.", examples=[1])
    ]
    licence: Annotated[str, Meta(description="SPDX code of the licence.", examples=["CC-BY-4.0"])]
    attribution: Annotated[
        str, Meta(description="Show it where you show the factor.", examples=["Our World in Data, CC BY 4.0."])
    ]
    created_at: Annotated[
        Timestamp, Meta(description="When this version was added.", examples=["2026-11-17T00:00:00.000Z"])
    ]
    gas_emissions: Annotated[
        dict[str, str] | None,
        Meta(description="Emissions by gas. Always null: the publications have only the sum.", examples=[None]),
    ] = None


def factor_out(factor: Factor) -> EmissionFactorOut:
    return same_named(
        EmissionFactorOut,
        factor,
        name=factor.activity,
        value=f"{factor.kg_per_unit:f}",
        well_to_tank_value=None if factor.well_to_tank is None else f"{factor.well_to_tank:f}",
        numerator_unit=NumeratorUnit.KG,
        denominator_unit=factor.unit,
        source=factor.source_code,
        source_version=factor.source,
        publication_year=factor.year,
        attribution=attribution(factor),
        created_at=to_wire(factor.created_at),
    )


def attribution(factor: Factor) -> str:
    return ATTRIBUTIONS.get(factor.licence, "{source}, licensed under {licence}.").format(
        source=factor.source, licence=factor.licence
    )
