"""The credits of an order, their retirement, and its certificates."""

from datetime import UTC, date, datetime, time

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Scope
from tonne.platform.values.serials import serial_range
from tonne.platform.values.timeline import TimelineEntry

LIST_PARCELS_OF_ORDER = """
SELECT parcel.id, parcel.status, parcel.start_grams, parcel.quantity_grams, parcel.allocated_grams,
       parcel.in_service_name, parcel.opened_at, parcel.close_at, parcel.retired_on, parcel.retired_at,
       parcel.retirement_url, parcel.invalidated_at, lot.serial, lot.unit_grams, lot.vintage,
       project.name AS project_name,
       project.registry, project.registry_project_id, sum(share.quantity_grams)::bigint AS share_grams
FROM shares share
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
WHERE share.account_id = $1 AND share.order_id = $2
GROUP BY parcel.mode, parcel.id, lot.mode, lot.id, project.mode, project.id
ORDER BY parcel.opened_at, parcel.id
"""


class HeldParcel(Struct, frozen=True, kw_only=True):
    """A parcel of whole tonnes, or a unit that fractions of several orders share, and the part that an order has."""

    id: str
    status: str
    start_grams: int
    quantity_grams: int
    allocated_grams: int
    in_service_name: bool
    opened_at: datetime
    close_at: datetime | None
    retired_on: date | None
    retired_at: datetime | None
    retirement_url: str | None
    invalidated_at: datetime | None
    unit_grams: int
    project_name: str
    registry: str
    registry_project_id: str
    vintage: int
    serial: str
    share_grams: int

    @property
    def is_shared(self) -> bool:
        return self.share_grams < self.quantity_grams

    @property
    def serials(self) -> str:
        return serial_range(self.registry, self.serial, self.unit_grams, self.start_grams, self.quantity_grams)


async def list_held_parcels(connection: Connection, scope: Scope, order_id: str) -> list[HeldParcel]:
    rows = await connection.fetch(LIST_PARCELS_OF_ORDER, scope.account_id, order_id)
    return [HeldParcel(**row) for row in rows]


async def retirement_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    held = await list_held_parcels(connection, scope, order_id)
    return [entry for parcel in held for entry in _parcel(parcel)]


def _parcel(parcel: HeldParcel) -> list[TimelineEntry]:
    kind, id_ = ("unit" if parcel.is_shared else "parcel"), parcel.id
    named = f"{parcel.registry} {parcel.registry_project_id}, {parcel.serials}"
    share, whole = format_tonnes(parcel.share_grams), format_tonnes(parcel.quantity_grams)
    of_unit = f" of a unit of {whole} t" if parcel.is_shared else ""
    # A unit may be older than the order's share of it. The event order.retiring says when it was allocated.
    entries = [
        TimelineEntry(
            at=parcel.opened_at, kind=kind, text=f"opened, now supplies {share} t{of_unit}: {named}", subject_id=id_
        )
    ]
    if parcel.close_at is not None:
        fill = f"{format_tonnes(parcel.allocated_grams)} of {whole} t"
        text = f"closes in the service's name unless it is full before ({fill} taken): {named}"
        entries.append(TimelineEntry(at=parcel.close_at, kind=kind, text=text, subject_id=id_, is_planned=True))
    if parcel.retired_on is not None:
        # Simulated retirements have no address.
        address = f", {parcel.retirement_url}" if parcel.retirement_url else ""
        text = f"retired on {parcel.retired_on}: {named}{address}"
        at = parcel.retired_at or datetime.combine(parcel.retired_on, time(), UTC)
        entries.append(TimelineEntry(at=at, kind=kind, text=text, subject_id=id_))
    if parcel.invalidated_at is not None:
        entries.append(TimelineEntry(at=parcel.invalidated_at, kind=kind, text=f"invalid: {named}", subject_id=id_))
    return entries


LIST_CERTIFICATES_OF_ORDER = """
SELECT number, issued_at, state, replaces, replaced_by, state_reason, state_changed_at
FROM certificates WHERE account_id = $1 AND order_id = $2 ORDER BY issued_at
"""


async def certificate_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_CERTIFICATES_OF_ORDER, scope.account_id, order_id):
        number = row["number"]
        replaces = f", replaces {row['replaces']}" if row["replaces"] else ""
        text = f"{number} issued{replaces}"
        entries.append(TimelineEntry(at=row["issued_at"], kind="certificate", text=text, subject_id=number))
        # A replaced one is named by its successor.
        if row["state"] == "withdrawn":
            text = f"{number} withdrawn: {row['state_reason']}"
            at = row["state_changed_at"]
            entries.append(TimelineEntry(at=at, kind="certificate", text=text, subject_id=number))
    return entries


LIST_LOT_CASES_OF_ORDER = """
SELECT lot_cases.lot_id, lot_cases.state, lot_cases.quantity_grams, lot_cases.opened_at, lot_cases.decided_by,
       lot_cases.done_at, lots.invalid_reason
FROM lot_cases JOIN lots ON lots.mode = lot_cases.mode AND lots.id = lot_cases.lot_id
WHERE lot_cases.account_id = $1 AND lot_cases.order_id = $2 ORDER BY lot_cases.opened_at
"""


async def lot_case_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """Credits of the order that turned out to be invalid."""
    entries = []
    for row in await connection.fetch(LIST_LOT_CASES_OF_ORDER, scope.account_id, order_id):
        tonnes, lot_id, state = format_tonnes(row["quantity_grams"]), row["lot_id"], row["state"]
        text = f"{tonnes} t are invalid: {row['invalid_reason']}"
        entries.append(TimelineEntry(at=row["opened_at"], kind="lot", text=text, subject_id=lot_id))
        if row["done_at"] is not None:
            actor, at = row["decided_by"], row["done_at"]
            entries.append(TimelineEntry(at=at, kind="lot", text=state, actor=actor, subject_id=lot_id))
        else:
            text = f"invalid credits: {state}" + (f" (`tonne lot show {lot_id}`)" if state == "undecided" else "")
            at = row["opened_at"]
            entries.append(TimelineEntry(at=at, kind="lot", text=text, subject_id=lot_id, is_planned=True))
    return entries
