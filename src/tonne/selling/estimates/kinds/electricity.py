"""Estimates of electricity from the grid."""

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.json_body import JsonNumber
from tonne.selling.estimates.calculated import Calculated, EstimateKind, emission_step, plain, step, to_grams
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.model import WORLD, Factor, FactorSet
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.geography.countries import alpha_3
from tonne.selling.estimates.kinds.errors import CountryInvalid

CATEGORY = "Electricity"
UNIT = "kWh"
# The names of factors for a country's grid end with it, also of imported ones.
GRID = "grid, lifecycle average"


class EnergyUnit(StrEnum):
    KWH = "kWh"
    MWH = "MWh"
    GWH = "GWh"


KWH_PER_UNIT = {EnergyUnit.KWH: 1, EnergyUnit.MWH: 1_000, EnergyUnit.GWH: 1_000_000}
_CODE = re.compile("[A-Za-z]{2,3}", re.ASCII)


def _read_country(value: Any) -> str:
    """As alpha-3, which the factors have. A country that is not known stays as it is, for the message."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not _CODE.fullmatch(value):
        raise ValueError("expected an ISO 3166 code of two or three letters, such as DEU")
    return alpha_3(value) or value.upper()


CountryCode = Annotated[
    str,
    _read_country,
    Meta(description="ISO 3166 code.", examples=["DEU"], extra_json_schema={"pattern": "^[A-Za-z]{2,3}$"}),
]


class ConsumptionIn(msgspec.Struct, forbid_unknown_fields=True):
    amount: Annotated[Decimal, Meta(description="A decimal string.", examples=["1000"])]
    unit: Annotated[EnergyUnit, Meta(description="Unit of the energy.", examples=["kWh"])]


class ElectricityEstimateIn(CommonIn, forbid_unknown_fields=True, kw_only=True):
    consumption: Annotated[ConsumptionIn, Meta(description="The electricity that was taken from the grid.")]
    country_code: Annotated[
        CountryCode | None,
        Meta(description="Country of the grid. Left out: the world's, or the median of all countries."),
    ] = None


class ElectricityEstimateOut(CalculatedOut, kw_only=True):
    request: Annotated[ElectricityEstimateIn, AS_SENT]
    emission_factor: Annotated[EmissionFactorOut, Meta(description="The factor of the grid.")]


def calculate_electricity(request: ElectricityEstimateIn, factors: FactorSet) -> Calculated:
    amount, unit = request.consumption.amount, request.consumption.unit
    if not amount:
        raise MassInvalid("consumption.amount must be more than 0.", field="consumption.amount")
    kwh = amount * KWH_PER_UNIT[unit]
    factor, reason = grid_factor(request.country_code, factors)
    kilograms = kwh * factor.kg_per_unit
    formula = f"{plain(amount)} {unit}" + ("" if unit is EnergyUnit.KWH else f" = {plain(kwh)} kWh")
    explain = (
        step("Electricity as it was sent", formula, kwh, UNIT),
        emission_step(f"{reason}: {factor.activity}", (f"{plain(kwh)} kWh",), factor, factor.kg_per_unit, kilograms),
    )
    return Calculated(to_grams(kilograms), explain, (factor,), {"emission_factor": factor_out(factor)})


def grid_factor(country_code: str | None, factors: FactorSet) -> tuple[Factor, str]:
    """The factor of a country's grid, and why it is used."""
    grids = {each.region: each for each in factors.latest_of(CATEGORY, UNIT) if each.activity.endswith(GRID)}
    if country_code is not None:
        if country_code not in grids:
            raise CountryInvalid(
                f"There is no emission factor for the grid of {country_code}. Send the ISO 3166 alpha-3 code of "
                "another country, or leave country_code out.",
                field="country_code",
            )
        return grids[country_code], "The grid of the country"
    if WORLD in grids:
        return grids[WORLD], "No country was sent, so the average of the world"
    ranked = sorted(grids.values(), key=lambda each: (each.kg_per_unit, each.region))
    return ranked[len(ranked) // 2], "No country was sent, so the median of all countries"


ELECTRICITY = EstimateKind(
    name="electricity",
    noun="electricity",
    about="By the intensity of a country's grid over the whole life of its power plants.",
    operation="ElectricityEstimate",
    parameter="electricity_estimate_id",
    request=ElectricityEstimateIn,
    answer=ElectricityEstimateOut,
    calculate=calculate_electricity,
    errors=(CountryInvalid,),
    example={"consumption": {"amount": "1000", "unit": "kWh"}, "country_code": "DEU"},
)
