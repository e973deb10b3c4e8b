"""Estimates that Tonne calculates: what all kinds share.

A kind consists of three things. `selling/estimates/kinds/flight.py` is an example:

- a request: a struct that extends `CommonIn` (calculated_schemas.py) with the fields of the activity
- `calculate(request, factors) -> Calculated`: a pure function, in `Decimal`. It raises a TonneError, which says what to
  do, for a request that cannot be calculated
- an answer: a struct that extends `CalculatedOut` with the fields of `Calculated.answer`. It is only the schema: the
  response is made of what is stored

`EstimateKind` connects them, and `calculated_endpoints.py` makes the routes for POST, GET, PUT and PATCH of them. The
result is stored as it was answered, with the factors and the explanation, so an estimate never changes when a factor
does. Orders read only the mass, so they work with every kind.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Generic, TypeVar

import msgspec

from tonne.platform.values.amounts import MAX_GRAMS, format_scaled
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.calculated_schemas import (
    CalculatedOut,
    CommonIn,
    EstimateMassOut,
    ExplainStepOut,
    StepFactorOut,
)
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.model import EstimateMassUnit, mass_text

In = TypeVar("In", bound=CommonIn)


class Calculated(msgspec.Struct, frozen=True):
    """The result of a calculation. `factors` are all factors that were used, each once.

    `answer` has the fields of the kind, ready to be encoded as JSON.
    """

    mass_grams: int
    explain: Sequence[ExplainStepOut]
    factors: Sequence[Factor] = ()
    answer: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Annotations(msgspec.Struct, frozen=True):
    """The names that a kind gives to its two annotations: whether the activity has taken place, and when."""

    is_actual: str
    occurred_at: str
    # The body of PATCH: the two fields, metadata and idempotency_key. None: they are set by POST and PUT only.
    request: type[msgspec.Struct] | None = None


class EstimateKind(msgspec.Struct, Generic[In], frozen=True, kw_only=True):
    """`name` is stored, and is the last part of the path: `flight` is /v1/estimates/flight.

    `noun` names it in texts: "a flight". `operation` is the ending of its operation ids: createFlightEstimate.
    """

    name: str
    noun: str
    about: str
    operation: str
    # The name of the id in paths, such as flight_estimate_id.
    parameter: str
    request: type[In]
    answer: type[CalculatedOut]
    calculate: Callable[[In, FactorSet], Calculated]
    errors: Sequence[type[TonneError]] = ()
    example: Mapping[str, Any] | None = None
    annotations: Annotations | None = None
    # Loads data that `calculate` needs. Called once, in a thread, before the first calculation.
    prepare: Callable[[], object] | None = None
    # Calculates in a thread: for calculations that take longer than a few milliseconds.
    in_thread: bool = False
    # With `in_thread`: whether this request takes long. Without it, all do.
    is_slow: Callable[[In], bool] | None = None


class CalculatedEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a stored estimate. `request` and `result` are JSON."""

    scope: Scope
    id: str
    kind: str
    version: int
    idempotency_key: str
    mass_grams: int
    name: str | None
    metadata: str
    is_actual: bool | None
    occurred_at: datetime | None
    created_at: datetime
    request: str
    result: str
    calculated_at: datetime


def to_grams(kilograms: Decimal) -> int:
    """Rounded half up."""
    return int((kilograms * 1000).to_integral_value(ROUND_HALF_UP))


def require_mass(mass_grams: int) -> int:
    """Raises MassInvalid for a result that nobody could order."""
    if mass_grams < 1:
        raise MassInvalid("The result is less than half a gram, which cannot be offset. Check amounts and units.")
    if mass_grams > MAX_GRAMS:
        raise MassInvalid("The result is more than 100,000,000 tonnes. Check amounts and units.")
    return mass_grams


def mass_out(mass_grams: int) -> EstimateMassOut:
    """In kilograms, exact to the gram, without trailing zeros."""
    return EstimateMassOut(format_scaled(mass_grams, 3).rstrip("0").rstrip("."), EstimateMassUnit.KG)


def in_unit(answer: Any, unit: EstimateMassUnit) -> Any:
    """The answer with every mass in this unit. The explanation is not part of it: it shows the calculation as it is."""
    if isinstance(answer, Mapping):
        return {name: in_unit(value, unit) for name, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [in_unit(value, unit) for value in answer]
    if not isinstance(answer, msgspec.Struct):
        return answer
    changed = {name: in_unit(getattr(answer, name), unit) for name in answer.__struct_fields__}
    if isinstance(answer, EstimateMassOut):
        changed |= {"amount": mass_text(Decimal(answer.amount) * 1000, unit), "unit": unit}
    return msgspec.structs.replace(answer, **changed)


def split_grams(parts: Sequence[Decimal]) -> list[int]:
    """Kilograms of each part in grams. They add up to the rounded sum: the first part takes the difference."""
    rounded = [to_grams(part) for part in parts[1:]]
    return [to_grams(sum(parts, Decimal(0))) - sum(rounded), *rounded]


def plain(number: Decimal, decimals: int | None = None) -> str:
    """A number as the explanation shows it: no exponent, no trailing zeros, at most `decimals` decimals."""
    shown = number if decimals is None else round(number, decimals)
    text = f"{shown:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def step(
    description: str, formula: str, amount: Decimal | None = None, unit: str | None = None, factor: Factor | None = None
) -> ExplainStepOut:
    """One step of an explanation. `formula` has the numbers in it."""
    used = None if factor is None else _step_factor(factor)
    return ExplainStepOut(description, formula, None if amount is None else plain(amount), unit, used)


def emission_step(
    description: str, amounts: Sequence[str], factor: Factor, value: Decimal, kilograms: Decimal
) -> ExplainStepOut:
    """Amounts x factor = kilograms. `value` is the factor itself or its well-to-tank part."""
    product = " × ".join((*amounts, f"{plain(value)} kg per {factor.unit}"))
    return step(description, f"{product} = {plain(kilograms, 6)} kg", kilograms, "kg", factor)


def _step_factor(factor: Factor) -> StepFactorOut:
    return StepFactorOut(factor.id, factor.version, factor.source, factor.year, factor.licence)
