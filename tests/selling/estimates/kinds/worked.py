"""Runs a kind of estimate on a request as a client sends it, with the factors of the package."""

from typing import Any

import msgspec

from tonne.platform.http.json_body import decode_json, read
from tonne.selling.estimates.calculated import Calculated, EstimateKind
from tonne.selling.estimates.factors.import_rows import shipped_factors
from tonne.selling.estimates.factors.model import FactorSet

FACTORS = FactorSet(shipped_factors())


def calculate(kind: EstimateKind[Any], body: dict[str, Any]) -> Calculated:
    return kind.calculate(read(decode_json(msgspec.json.encode(body)), kind.request), FACTORS)


def fields_of(calculated: Calculated) -> Any:
    """The fields of the kind, as a client reads them."""
    return msgspec.json.decode(msgspec.json.encode(calculated.answer))


def formulas(calculated: Calculated) -> list[str]:
    return [each.formula for each in calculated.explain]
