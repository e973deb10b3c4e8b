"""Ways to ship goods, and the published factor that each is calculated with."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.errors import Fault, Invalid

FREIGHT = "Freighting goods"
TONNE_KM = "t*km"


class TransportMode(StrEnum):
    ROAD = "road"
    RAIL = "rail"
    SEA = "sea"
    AIR = "air"


class Method(Struct, frozen=True):
    """`activity` is the name of the factor in the category for freight; empty for air, where the route decides.

    `notes` say what the factor is used for, if nothing closer is published. `uplift` has the activities of a
    refrigerated vehicle and of the same one without refrigeration: the factor is raised by their ratio.
    """

    name: str
    mode: TransportMode
    activity: str
    notes: Sequence[str] = ()
    uplift: tuple[str, str] | None = None


_COOLED = "HGV refrigerated (all diesel)"
_COOLED_VAN = (
    "Refrigerated vans have no factor of their own: that of vans is raised by as much as refrigeration raises the "
    "factor of rigid trucks up to 7.5 t."
)
_COOLED_CONTAINER = (
    "Refrigerated containers have no factor of their own: the average of container ships, which carry both, is used. "
    "The energy that cools this container is not added."
)
_TRAIN = "Rail / Freight train"
_ALL_TRAINS = "the average of all freight trains in the UK, most of which run on diesel, is used."
_TRUCKS = {
    "diesel_truck": "All HGVs",
    "truck_generic_urban": "Rigid (>3.5 - 7.5 tonnes)",
    "truck_generic_mgv": "Rigid (>7.5 tonnes-17 tonnes)",
    "truck_generic_hgv": "All HGVs",
}
_SIZES = {
    "truck_rigid_7_5t": "Rigid (>3.5 - 7.5 tonnes)",
    "truck_rigid_12t": "Rigid (>7.5 tonnes-17 tonnes)",
    "truck_rigid_20t": "Rigid (>17 tonnes)",
    "truck_rigid_26t": "Rigid (>17 tonnes)",
    "truck_rigid_32t": "Rigid (>17 tonnes)",
    "truck_articulated_34t": "Articulated (>33t)",
    "truck_articulated_40t": "Articulated (>33t)",
    "truck_articulated_44t": "Articulated (>33t)",
}
_BROADER = {
    "truck_generic_hgv": [
        "Heavy goods vehicles above 20 t have no factor of their own: that of all goods vehicles above 3.5 t is used."
    ],
    "truck_rigid_12t": ["The factor of rigid trucks between 7.5 t and 17 t is used."],
    "truck_rigid_20t": ["The factor of all rigid trucks above 17 t is used."],
    "truck_rigid_26t": ["The factor of all rigid trucks above 17 t is used."],
    "truck_rigid_32t": ["The factor of all rigid trucks above 17 t is used."],
    "truck_articulated_34t": ["The factor of all articulated trucks above 33 t is used."],
    "truck_articulated_40t": ["The factor of all articulated trucks above 33 t is used."],
    "truck_articulated_44t": ["The factor of all articulated trucks above 33 t is used."],
}
_SHIPS = {
    "sea_bulk_carrier": "Cargo ship / Bulk carrier / Average",
    "sea_oil_tanker": "Sea tanker / Crude tanker / Average",
    "sea_general_cargo": "Cargo ship / General cargo / Average",
    # Names of our own.
    "sea_products_tanker": "Sea tanker / Products tanker / Average",
    "sea_chemical_tanker": "Sea tanker / Chemical tanker / Average",
    "sea_lng_tanker": "Sea tanker / LNG tanker / Average",
    "sea_lpg_tanker": "Sea tanker / LPG Tanker / Average",
    "sea_vehicle_carrier": "Cargo ship / Vehicle transport / Average",
    "sea_roro_ferry": "Cargo ship / RoRo-Ferry / Average",
    "sea_ropax_ferry": "Cargo ship / Large RoPax ferry / Average",
    "sea_refrigerated_cargo": "Cargo ship / Refrigerated cargo /  All dwt",
}
_PLANES = {
    "plane": None,
    "passenger_plane": "Goods in the hold of passenger planes have no factor of their own: that of all freight by air "
    "is used.",
    "cargo_plane": "Cargo planes have no factor of their own: that of all freight by air, in cargo and passenger "
    "planes, is used.",
}
CONTAINER_SHIP = "container_ship"
_CONTAINERS = "Cargo ship / Container ship / Average"


def truck_activity(name: str, load: str = "Average laden", *, is_cooled: bool = False) -> str:
    size = (_TRUCKS | _SIZES)[name]
    return f"{_COOLED if is_cooled else 'HGV (all diesel)'} / {size} / {load}"


def _all_methods() -> Iterator[Method]:
    yield Method("rail", TransportMode.RAIL, _TRAIN)
    yield Method(
        "diesel_freight_train",
        TransportMode.RAIL,
        _TRAIN,
        [f"Diesel trains have no factor of their own: {_ALL_TRAINS}"],
    )
    yield Method(
        "electric_freight_train",
        TransportMode.RAIL,
        _TRAIN,
        [f"Electric trains have no factor of their own: {_ALL_TRAINS}"],
    )
    van = "Vans / Average (up to 3.5 tonnes) / Diesel"
    yield Method("truck_generic_van", TransportMode.ROAD, van)
    light = "Rigid (>3.5 - 7.5 tonnes) / Average laden"
    yield Method(
        "truck_generic_van_refrigerated",
        TransportMode.ROAD,
        van,
        [_COOLED_VAN],
        (f"{_COOLED} / {light}", f"HGV (all diesel) / {light}"),
    )
    for name in (*_TRUCKS, *_SIZES):
        yield Method(name, TransportMode.ROAD, truck_activity(name), _BROADER.get(name, ()))
        if name in _TRUCKS:
            activity = truck_activity(name, is_cooled=True)
            yield Method(f"{name}_refrigerated", TransportMode.ROAD, activity, _BROADER.get(name, ()))
    for name, activity in _SHIPS.items():
        yield Method(name, TransportMode.SEA, activity)
    for name, note in _PLANES.items():
        yield Method(name, TransportMode.AIR, "", () if note is None else [note])


METHODS = {method.name: method for method in _all_methods()}
CONTAINER_SHIPS = {
    False: Method(CONTAINER_SHIP, TransportMode.SEA, _CONTAINERS),
    True: Method(
        CONTAINER_SHIP,
        TransportMode.SEA,
        _CONTAINERS,
        [_COOLED_CONTAINER],
    ),
}


def require_mode(method: Method, mode: TransportMode, member: str, field: str) -> None:
    if method.mode is not mode:
        message = f"{member} applies to transport by {mode} only. Remove it: {method.name} is by {method.mode}."
        raise Invalid([Fault("validation_error", message, f"{field}.{member}")])
