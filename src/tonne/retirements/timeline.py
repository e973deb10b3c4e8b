"""The credits of an order, their retirement, and its certificates."""

from datetime import UTC, datetime, time

import asyncpg

from tonne.base.mass import format_tonnes
from tonne.base.scope import Scope
from tonne.base.timeline import TimelineEntry
from tonne.db.pool import Connection
from tonne.retirements.model import serial_range

LIST_PARCELS_OF_ORDER = """
SELECT parcel.id, parcel.status, parcel.start_grams, parcel.quantity_grams, parcel.allocated_grams,
       parcel.in_service_name, parcel.opened_at, parcel.close_at, parcel.retired_on, parcel.retired_at,
       parcel.retirement_url, parcel.invalidated_at, lot.first_number, project.registry, project.registry_project_id,
       coalesce(lot.block_spelling, block.block) AS serial_block, sum(share.quantity_grams)::bigint AS share_grams
FROM shares share
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
WHERE share.account_id = $1 AND share.order_id = $2
GROUP BY parcel.mode, parcel.id, lot.mode, lot.id, block.number, project.mode, project.id
ORDER BY parcel.opened_at, parcel.id
"""


async def retirement_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """A parcel of whole tonnes, or a unit that fractions of several orders share."""
    rows = await connection.fetch(LIST_PARCELS_OF_ORDER, scope.account_id, order_id)
    return [entry for row in rows for entry in _parcel(row)]


def _parcel(row: asyncpg.Record) -> list[TimelineEntry]:
    is_shared = row["share_grams"] < row["quantity_grams"]
    kind, id_ = ("unit" if is_shared else "parcel"), row["id"]
    serials = serial_range(row["serial_block"], row["first_number"], row["start_grams"], row["quantity_grams"])
    named = f"{row['registry']} {row['registry_project_id']}, {serials}"
    share = format_tonnes(row["share_grams"])
    of_unit = f" of a unit of {format_tonnes(row['quantity_grams'])} t" if is_shared else ""
    # A unit may be older than the order's share of it. The event order.retiring says when it was allocated.
    entries = [
        TimelineEntry(
            at=row["opened_at"], kind=kind, text=f"opened, now supplies {share} t{of_unit}: {named}", subject_id=id_
        )
    ]
    if row["status"] == "open":
        fill = f"{format_tonnes(row['allocated_grams'])} of {format_tonnes(row['quantity_grams'])} t"
        text = f"closes in the service's name unless it is full before ({fill} taken): {named}"
        entries.append(TimelineEntry(at=row["close_at"], kind=kind, text=text, subject_id=id_, is_planned=True))
    if row["retired_on"] is not None:
        # Simulated retirements have no address.
        address = f", {row['retirement_url']}" if row["retirement_url"] else ""
        text = f"retired on {row['retired_on']}: {named}{address}"
        at = row["retired_at"] or datetime.combine(row["retired_on"], time(), UTC)
        entries.append(TimelineEntry(at=at, kind=kind, text=text, subject_id=id_))
    if row["invalidated_at"] is not None:
        entries.append(TimelineEntry(at=row["invalidated_at"], kind=kind, text=f"invalid: {named}", subject_id=id_))
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
