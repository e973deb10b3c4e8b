"""How goods are shipped, as a request says it: a name, or an object for trucks and ships."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

from tonne.platform.http.json_body import Document, read
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.shipping.methods import (
    CONTAINER_SHIP,
    CONTAINER_SHIPS,
    METHODS,
    Method,
    TransportMode,
    truck_activity,
)

TruckType = StrEnum(
    "TruckType",
    "truck truck_generic_van truck_rigid_7_5t truck_rigid_12t truck_rigid_20t truck_rigid_26t truck_rigid_32t "
    "truck_articulated_34t truck_articulated_40t truck_articulated_44t truck_articulated_60t truck_articulated_72t",
)
VesselType = StrEnum(
    "VesselType",
    "container_ship sea_oil_tanker_small sea_oil_tanker_medium sea_oil_tanker_large sea_oil_tanker_huge "
    "sea_general_cargo_small sea_general_cargo_large sea_bulk_carrier_small sea_bulk_carrier_medium "
    "sea_bulk_carrier_large sea_ropax sea_roro",
)


class Fuel(StrEnum):
    """LNG is also accepted in capitals, as at sea. Two names that differ in nothing else break generated clients."""

    GASOLINE = "gasoline"
    DIESEL = "diesel"
    DIESEL_99 = "99_diesel_1_biodiesel"
    DIESEL_98 = "98_diesel_2_biodiesel"
    DIESEL_95 = "95_diesel_5_biodiesel"
    DIESEL_93 = "93_diesel_7_biodiesel"
    DIESEL_90 = "90_diesel_10_biodiesel"
    DIESEL_80 = "80_diesel_20_biodiesel"
    DIESEL_50 = "50_diesel_50_biodiesel"
    ETHANOL = "ethanol_from_corn"
    HVO = "hvo_from_tallow"
    LPG = "lpg"
    CNG = "cng"
    LNG = "lng"
    AUTO_DETECT = "auto_detect"
    HEAVY_OIL = "HFO"
    GAS_OIL = "MGO"


Gradient = StrEnum("Gradient", "flat hilly mountainous")
EmissionStandard = StrEnum("EmissionStandard", "euro1 euro2 euro3 euro4 euro5 euro6")
RoRoLoad = StrEnum("RoRoLoad", "freight_only truck_and_trailer trailer_only")
_AREAS = "asia|africa|europe|mediterranean|middle_east|north_america|north_america_(east|west)|north_europe|oceania"
_AREA = f"({_AREAS}|south_america|(ne|se)_asia)"
_TRADE_LANE = (
    "^(aggregated_(panama_trade|transatlantic|transsuez|transpacific|other)"
    f"|disaggregated_({_AREA}_to_{_AREA}|intra_{_AREA}|other))$"
)
_SITUATION = "^(city|motorway|arterial_road)_(urban|rural)_(freeflow|heavy_traffic|stop_and_go)$"
_SITES = ("maritime_container_terminal", "transhipment_site", "storage_and_transhipment", "warehouse", "liquid_bulk_")


class MethodDetails(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A truck with its `vehicle_type` and `fuel`, or a ship with its `vessel_type`.

    Not all have an open emission factor: the error then says what has one.
    """

    vehicle_type: Annotated[TruckType | None, Meta(description="The truck.", examples=["truck_rigid_12t"])] = None
    vessel_type: Annotated[VesselType | None, Meta(description="The ship.", examples=[None, "container_ship"])] = None
    fuel: Annotated[
        Fuel | None, Meta(description="Required by road; `auto_detect` is the usual one.", examples=["diesel"])
    ] = None
    gradient: Annotated[Gradient | None, Meta(description="By road.", examples=["flat"])] = None
    load_factor: Annotated[
        Decimal | None, Meta(description="By road, 0 to 1: how much of the capacity is used.", examples=["0.5"])
    ] = None
    empty_runs_factor: Annotated[
        Decimal | None, Meta(description="By road, 0 to 1: the share that is driven empty.", examples=["0"])
    ] = None
    situation: Annotated[
        Annotated[str, Meta(pattern=_SITUATION)] | None,
        Meta(description="By road.", examples=["motorway_rural_freeflow"]),
    ] = None
    emission_standard: Annotated[EmissionStandard | None, Meta(description="By road.", examples=["euro6"])] = None
    refrigerated: Annotated[bool | None, Meta(description="Whether the goods are cooled.", examples=[False])] = None
    trade_lane: Annotated[
        Annotated[str, Meta(pattern=_TRADE_LANE)] | None,
        Meta(description="Of a container ship.", examples=[None, "aggregated_transsuez"]),
    ] = None
    load: Annotated[RoRoLoad | None, Meta(description="Of `sea_roro`.", examples=[None, "trailer_only"])] = None


_ROAD = {"vehicle_type", "fuel", "gradient", "load_factor", "empty_runs_factor", "situation", "emission_standard"}
_CONTAINERS = {"vessel_type", "refrigerated", "load_factor", "trade_lane"}
_VAN = "truck_generic_van"
_VAN_FUELS = {"diesel": "Diesel", "gasoline": "Petrol", "cng": "CNG", "lpg": "LPG", "auto_detect": "Unknown"}
_LADEN = {Decimal("0.5"): "50% Laden", Decimal(1): "100% Laden"}
_FERRIES = {"sea_ropax": "sea_ropax_ferry", "sea_roro": "sea_roro_ferry"}
_TRUCK_TYPES = [each.value for each in TruckType if each in METHODS or each == "truck"]
# The objects that GET /v1/estimates/shipping/methods lists.
OBJECTS: Sequence[Mapping[str, Any]] = (
    *({"vessel_type": CONTAINER_SHIP, "refrigerated": is_cooled} for is_cooled in CONTAINER_SHIPS),
    *({"vessel_type": ferry} for ferry in _FERRIES),
    *({"vehicle_type": _VAN, "fuel": fuel} for fuel in _VAN_FUELS),
    *({"vehicle_type": truck, "fuel": "diesel"} for truck in _TRUCK_TYPES if truck != _VAN),
)


def read_method(value: Any) -> Method:
    """Raises ValueError or Invalid, which name what exists."""
    if isinstance(value, dict):
        same = {"fuel": "lng"} if value.get("fuel") == "LNG" else {}
        sent = read(Document(b"", value | same), MethodDetails)
        if (sent.vehicle_type is None) == (sent.vessel_type is None):
            raise ValueError("an object has a vehicle_type, or a vessel_type")
        if sent.vehicle_type is not None:
            return _by_road(sent, sent.vehicle_type)
        return _container_ship(sent) if sent.vessel_type == CONTAINER_SHIP else _ship(sent, str(sent.vessel_type))
    found = METHODS.get(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(_unknown(str(value)))
    return found


def _unknown(name: str) -> str:
    if name.startswith(_SITES):
        return "no open factor for logistics sites exists, only for road, rail, sea and air. Leave out the leg"
    sized = [each for each, method in METHODS.items() if method.mode is TransportMode.SEA and name.startswith(each)]
    if sized:
        return f"no open factor for these sizes and fuels exists. There is one for {sized[0]}, the average of all"
    return (
        f'there is a factor for {", ".join(METHODS)}, and for objects such as {{"vessel_type": "{CONTAINER_SHIP}"}}: '
        "GET /v1/estimates/shipping/methods lists them"
    )


def _by_road(sent: MethodDetails, vehicle: str) -> Method:
    _refuse_others(sent, {*_ROAD, "refrigerated"}, "a vehicle_type")
    fuels = _VAN_FUELS if vehicle == _VAN else {"diesel": "", "auto_detect": ""}
    if vehicle not in _TRUCK_TYPES:
        _no_factor("vehicle_type", vehicle, _TRUCK_TYPES)
    if sent.fuel is None:
        raise Invalid([Fault("validation_error", "fuel is required with a vehicle_type.", "fuel")])
    if sent.fuel not in fuels or (vehicle == _VAN and sent.refrigerated and sent.fuel != "diesel"):
        _no_factor("fuel", sent.fuel, ["diesel"] if sent.refrigerated else list(fuels))
    load = None if sent.load_factor is None else _LADEN.get(sent.load_factor)
    if sent.load_factor is not None and (load is None or vehicle == _VAN):
        _no_factor("load_factor", str(sent.load_factor), [] if vehicle == _VAN else [str(each) for each in _LADEN])
    if sent.empty_runs_factor is not None and (sent.empty_runs_factor or load is None):
        _no_factor("empty_runs_factor", str(sent.empty_runs_factor), [] if load is None else ["0"])
    if vehicle == _VAN:
        named = METHODS[f"{_VAN}_refrigerated" if sent.refrigerated else _VAN]
        activity = named.activity.replace("Diesel", _VAN_FUELS[sent.fuel])
        return Method(vehicle, named.mode, activity, (*named.notes, *_unused(sent)), named.uplift)
    named = METHODS["diesel_truck" if vehicle == "truck" else vehicle]
    notes = [*named.notes, *_unused(sent)]
    if sent.fuel == "auto_detect":
        notes.append("The fuel is taken for diesel: all published factors of trucks are for diesel.")
    if load is not None:
        notes.append("The truck is loaded like this all the way: empty runs are not part of the factor.")
    activity = truck_activity(named.name, load or "Average laden", is_cooled=bool(sent.refrigerated))
    return Method(vehicle, named.mode, activity, notes)


def _container_ship(sent: MethodDetails) -> Method:
    _refuse_others(sent, _CONTAINERS, "the vessel_type container_ship")
    if sent.load_factor is not None:
        _no_factor("load_factor", str(sent.load_factor), [])
    named = CONTAINER_SHIPS[bool(sent.refrigerated)]
    return Method(named.name, named.mode, named.activity, (*named.notes, *_unused(sent)))


def _ship(sent: MethodDetails, vessel: str) -> Method:
    _refuse_others(sent, {"vessel_type", "fuel", "load"}, "this vessel_type")
    if vessel not in _FERRIES:
        average = vessel.rpartition("_")[0]
        message = f"No open factor for {vessel} exists. Send “{average}” as method: the average of all sizes."
        raise Invalid([Fault("validation_error", message, "vessel_type")])
    if sent.fuel not in {None, "HFO", "MGO"}:
        _no_factor("fuel", str(sent.fuel), ["HFO", "MGO"])
    if sent.load is not None and vessel != "sea_roro":
        raise Invalid([Fault("validation_error", "load belongs to sea_roro only. Remove it.", "load")])
    named = METHODS[_FERRIES[vessel]]
    notes = ["The factor is that of large RoPax ferries."] if vessel == "sea_ropax" else []
    return Method(vessel, named.mode, named.activity, (*notes, *_unused(sent)))


def _unused(sent: MethodDetails) -> list[str]:
    """A note for each field that was sent and that no factor depends on: the average is used instead."""
    names = ["gradient", "situation", "emission_standard", "trade_lane", "load"]
    unused = [name for name in names if getattr(sent, name) is not None]
    if sent.vessel_type is not None and sent.fuel is not None:
        unused.append("fuel")
    what = "vehicles" if sent.vessel_type is None else "ships"
    return [f"No open factor depends on {name}: the average of these {what} is used." for name in unused]


def _refuse_others(sent: MethodDetails, allowed: set[str], what: str) -> None:
    faults = [
        Fault("validation_error", f"{name} does not belong to {what}. Remove it.", name)
        for name in sent.__struct_fields__
        if name not in allowed and getattr(sent, name) is not None
    ]
    faults += [
        Fault("validation_error", f"{name} is a number from 0 to 1.", name)
        for name in ("load_factor", "empty_runs_factor")
        if (getattr(sent, name) or 0) > 1
    ]
    if faults:
        raise Invalid(faults)


def _no_factor(field: str, value: str, existing: Sequence[str]) -> NoReturn:
    advice = f"There is one for {', '.join(existing)}." if existing else f"Leave out {field}."
    raise Invalid([Fault("validation_error", f"No open factor for the {field} {value} exists. {advice}", field)])
