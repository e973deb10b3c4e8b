"""Estimates by any emission factor: factor x amount."""

from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.calculated import Calculated, EstimateKind, emission_step, plain, step, to_grams
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.errors import FactorIdInvalid, UnitInvalid, UnitMismatch
from tonne.selling.estimates.factors.model import FactorSet
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.factors.units import convert, load_units, parse_unit


class ActivityIn(msgspec.Struct, forbid_unknown_fields=True):
    value: Annotated[Decimal, Meta(description="The amount as a decimal string.", examples=["120"])]
    unit: Annotated[
        str,
        Meta(
            max_length=60,
            description="The factor's `denominator_unit`, or a unit that can be converted to it, such as `mi` for km.",
            examples=["km"],
        ),
    ]


class EmissionFactorEstimateIn(CommonIn, forbid_unknown_fields=True, kw_only=True):
    emission_factor_id: Annotated[
        str,
        Meta(
            max_length=200,
            description="Id of an emission factor.",
            examples=["desnz-2025/taxis-black-cab/passenger-km"],
        ),
    ]
    activity: Annotated[ActivityIn, Meta(description="How much of it.")]
    well_to_tank: Annotated[
        bool | None,
        Meta(
            description="Whether to add the factor's well-to-tank part, if it is published apart. False if left out.",
            examples=[False],
        ),
    ] = None


class EmissionFactorEstimateOut(CalculatedOut, kw_only=True):
    request: Annotated[EmissionFactorEstimateIn, AS_SENT]
    emission_factor: Annotated[EmissionFactorOut, Meta(description="The factor.")]


def calculate_emission_factor(request: EmissionFactorEstimateIn, factors: FactorSet) -> Calculated:
    factor = factors.by_id.get(request.emission_factor_id)
    if factor is None:
        raise FactorIdInvalid(field="emission_factor_id")
    value = request.activity.value
    if not value:
        raise MassInvalid("activity.value must be more than 0.", field="activity.value")
    try:
        unit = parse_unit(request.activity.unit)
        amount = convert(value, unit, factor.unit)
    except (UnitInvalid, UnitMismatch) as error:
        raise _named(error) from error
    sent, converted = f"{plain(value)} {unit}", f"{plain(amount, 6)} {factor.unit}"
    explain = [
        step("Activity", sent if unit == factor.unit else f"{sent} = {converted}", amount, factor.unit),
        emission_step(factor.activity, (converted,), factor, factor.kg_per_unit, amount * factor.kg_per_unit),
    ]
    kilograms = amount * factor.kg_per_unit
    if request.well_to_tank and factor.well_to_tank is not None:
        fuel = amount * factor.well_to_tank
        kilograms += fuel
        explain.append(emission_step("Well-to-tank", (converted,), factor, factor.well_to_tank, fuel))
    return Calculated(to_grams(kilograms), explain, (factor,), {"emission_factor": factor_out(factor)})


def _named(error: TonneError) -> TonneError:
    """The same error, with the field that it is about."""
    return type(error)(str(error), field="activity.unit")


EMISSION_FACTOR = EstimateKind(
    name="emission-factor",
    noun="any activity",
    about="Multiplies an emission factor by an amount, whose unit is converted.",
    operation="EmissionFactorEstimate",
    parameter="emission_factor_estimate_id",
    request=EmissionFactorEstimateIn,
    answer=EmissionFactorEstimateOut,
    calculate=calculate_emission_factor,
    errors=(FactorIdInvalid, UnitMismatch),
    example={
        "emission_factor_id": "desnz-2025/taxis-black-cab/passenger-km",
        "activity": {"value": "12.5", "unit": "person*km"},
    },
    prepare=load_units,
)
