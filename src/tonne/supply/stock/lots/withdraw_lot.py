"""Withdraw a lot that was imported by mistake, or that cannot be sold any more."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Actor
from tonne.selling.catalogue.imports.store import acquire_import_lock
from tonne.supply.stock.errors import LotInUse, LotNotFound
from tonne.supply.stock.holds.hold_store import find_overheld_any_account
from tonne.supply.stock.lots.lot_store import ListedLot, find_withdrawn_lot, lock_lot, move_to_withdrawn
from tonne.supply.stock.lots.lots import find_holders_any_account, name_holders


async def withdraw_lot(tx: Connection, lot_id: str, *, reason: str, actor: Actor, now: datetime) -> ListedLot:
    """Withdraw a lot of which no order holds grams. Its serial numbers may be imported again."""
    await acquire_import_lock(tx)
    lot = await lock_lot(tx, lot_id)
    if lot is None:
        withdrawn = await find_withdrawn_lot(tx, lot_id)
        if withdrawn is not None and withdrawn.withdrawn_at is not None:
            raise LotNotFound(f"Lot {lot_id} was already withdrawn on {withdrawn.withdrawn_at.date()}.")
        raise LotNotFound(f"There is no lot {lot_id}. Run `tonne lot list --mode live` or `--mode test` to see all.")
    if lot.allocated_grams:
        holders = await find_holders_any_account(tx, lot.mode, [lot.id])
        raise LotInUse(
            f"{format_tonnes(lot.allocated_grams)} t of lot {lot.id} are allocated to "
            f"{name_holders(holders.get(lot.id, []))}, so it cannot be withdrawn. `tonne lot show {lot.id}` lists them."
        )
    await move_to_withdrawn(tx, lot, actor=actor, reason=reason, now=now)
    if await find_overheld_any_account(tx, lot.mode):
        raise LotInUse(
            f"Customers who are paying now hold tonnes of lot {lot.id}, so it cannot be withdrawn. Try again in 35 "
            "minutes."
        )
    before = {
        "registry": lot.registry,
        "registry_project_id": lot.registry_project_id,
        "vintage": lot.vintage,
        "serial_block": lot.serial_block,
        "first_number": lot.first_number,
        "last_number": lot.last_number,
        "status": lot.status,
    }
    await audit.record(
        tx, None, "lot.withdrawn", actor=actor, at=now, subject_id=lot.id, mode=lot.mode, before=before, reason=reason
    )
    return lot
