"""Pooled units for the operator: registry units that several orders share."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.supply.stock.errors import UnitNotFound, UnitNotOpen


class Unit(Struct, frozen=True):
    """`allocated_grams` of the unit are sold. `order_ids` are the orders that wait for its retirement."""

    mode: Mode
    id: str
    registry: str
    registry_project_id: str
    project_name: str
    quantity_grams: int
    allocated_grams: int
    status: str
    account_id: str | None
    beneficiary: str
    opened_at: datetime
    close_at: datetime | None
    order_ids: list[str]

    @property
    def free_grams(self) -> int:
        return self.quantity_grams - self.allocated_grams

    @property
    def fill_percent(self) -> int:
        return self.allocated_grams * 100 // self.quantity_grams


# Open units, units in the service's name on the work list, and retired ones whose rest is still for sale.
LIST_UNITS = """
SELECT parcel.mode, parcel.id, project.registry, project.registry_project_id, project.name AS project_name,
       parcel.quantity_grams, parcel.allocated_grams, parcel.status, parcel.account_id, parcel.beneficiary,
       parcel.opened_at, parcel.close_at,
       ARRAY(SELECT DISTINCT share.order_id FROM shares share
             JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id AND orders.status = 'retiring'
             ORDER BY share.order_id) AS order_ids
FROM parcels parcel JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
WHERE parcel.mode = $1 AND parcel.invalidated_at IS NULL
  AND (parcel.status = 'open' OR parcel.allocated_grams < parcel.quantity_grams
       OR parcel.status = 'to_retire' AND parcel.in_service_name)
ORDER BY parcel.status <> 'open', parcel.status, parcel.close_at, parcel.opened_at, parcel.id
"""


async def list_units_any_account(connection: Connection, mode: Mode) -> list[Unit]:
    """Open units first, the next to be closed on top."""
    return [Unit(**{**row, "mode": mode}) for row in await connection.fetch(LIST_UNITS, mode)]


LOCK_UNIT = """
SELECT parcel.mode, parcel.status, parcel.quantity_grams, parcel.allocated_grams, parcel.beneficiary, parcel.close_at,
       (SELECT min(organisation_id) FROM shares share
        WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id) AS organisation_id
FROM parcels parcel WHERE parcel.mode IN ('live', 'test') AND parcel.id = $1 FOR UPDATE OF parcel
"""
CLOSE_UNIT = """
UPDATE parcels SET status = 'to_retire', close_at = NULL, closed_at = $3, account_id = NULL, in_service_name = true,
                   beneficiary = $4
WHERE mode = $1 AND id = $2 AND status = 'open'
"""


async def close_unit_any_account(tx: Connection, unit_id: str, *, service_name: str, by: By) -> None:
    """Put an open unit on the work list now, in the service's name, as at the end of its waiting time."""
    unit = await tx.fetchrow(LOCK_UNIT, unit_id)
    if unit is None:
        raise UnitNotFound(f"There is no unit {unit_id}. `tonne unit list` shows all units.")
    if unit["status"] != "open":
        raise UnitNotOpen(f"Unit {unit_id} is not open, but {unit['status']}. `tonne unit list` shows the open units.")
    await tx.execute(CLOSE_UNIT, unit["mode"], unit_id, by.at, service_name)
    await audit.record(
        tx,
        unit["organisation_id"],
        "unit.closed",
        by=by,
        subject_id=unit_id,
        mode=Mode(unit["mode"]),
        before={"status": "open", "beneficiary": unit["beneficiary"], "close_at": unit["close_at"]},
        after={"status": "to_retire", "beneficiary": service_name, "close_at": None},
        allocated_grams=unit["allocated_grams"],
        quantity_grams=unit["quantity_grams"],
    )
