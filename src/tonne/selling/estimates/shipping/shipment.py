"""What is shipped: a mass, or containers and how heavily they are loaded."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.amounts import GRAMS_PER_TONNE, GRAMS_PER_UNIT
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.calculated import plain, step
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.schemas import MassIn

MAX_TONNES = 10_000_000


class CargoType(StrEnum):
    LIGHTWEIGHT = "lightweight"
    AVERAGE = "average"
    HEAVYWEIGHT = "heavyweight"
    CONTAINER_ONLY = "container_only"


# Assumptions of our own, not published figures: docs/estimates.md says so, and `explain` shows them. Clients that know
# the mass send it instead.
TONNES_PER_TEU = {
    CargoType.LIGHTWEIGHT: Decimal(6),
    CargoType.AVERAGE: Decimal(10),
    CargoType.HEAVYWEIGHT: Decimal("14.5"),
    CargoType.CONTAINER_ONLY: Decimal(2),
}


class ConversionMethod(StrEnum):
    USER_PROVIDED_CARGO_TYPE = "user_provided_cargo_type"
    AVERAGE_CARGO_TYPE = "average_cargo_type"


class ShippedMass(Struct, frozen=True):
    """`conversion` says how containers became a mass, `note` in words; None if the mass was sent."""

    tonnes: Decimal
    conversion: ConversionMethod | None
    note: str | None
    explain: ExplainStepOut


def shipped_mass(mass: MassIn | None, containers: Decimal | None, cargo_type: CargoType | None) -> ShippedMass:
    """A mass that is sent together with containers is the mass of the goods in them."""
    if containers is None and cargo_type is not None:
        raise _invalid("cargo_type says how containers are loaded: send containers, too.", "shipment.cargo_type")
    what = "Mass of the shipment"
    if mass is not None:
        tonnes = mass.amount * GRAMS_PER_UNIT[mass.unit] / GRAMS_PER_TONNE
        field, conversion, note = "shipment.mass.amount", None, None
        formula = f"{plain(mass.amount)} {mass.unit} = {plain(tonnes)} t"
    elif containers is not None:
        kind = cargo_type or CargoType.AVERAGE
        per_teu = TONNES_PER_TEU[kind]
        tonnes = containers * per_teu
        field = "shipment.containers"
        given = cargo_type is not None
        conversion = ConversionMethod.USER_PROVIDED_CARGO_TYPE if given else ConversionMethod.AVERAGE_CARGO_TYPE
        note = f"Containers were taken as {kind}: {per_teu} t per TEU, an assumption of Tonne."
        what = f"{what}. {per_teu} t per TEU ({kind}) is an assumption of Tonne: send the mass if you know it."
        formula = f"{plain(containers)} TEU × {per_teu} t = {plain(tonnes)} t"
    else:
        raise _invalid("shipment needs a mass, or containers.", "shipment")
    if not 0 < tonnes <= MAX_TONNES:
        raise _invalid("The shipment must weigh more than 0 and at most 10,000,000 t.", field)
    return ShippedMass(tonnes, conversion, note, step(what, formula, tonnes, "t"))


def _invalid(message: str, field: str) -> Invalid:
    return Invalid([Fault("validation_error", message, field)])
