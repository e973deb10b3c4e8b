"""SQL of parcels and lots that gateways of registries retire."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope
from tonne.supply.stock.lots.lot_case_store import wake_resupply
from tonne.supply.stock.model import ParcelStatus

# Skips what another worker instructs, or a person changes, at the moment.
LOCK_WAITING = """
SELECT id FROM parcels
WHERE mode = $1 AND id = ANY ($2::text[]) AND status = 'to_retire' AND instruction_id IS NULL AND desk_note IS NULL
  AND exported_at IS NULL
ORDER BY id FOR UPDATE SKIP LOCKED
"""


async def lock_waiting_any_account(tx: Connection, mode: Mode, ids: Collection[str]) -> list[str]:
    """Those of these parcels that nobody has been asked to retire."""
    return [row["id"] for row in await tx.fetch(LOCK_WAITING, mode, list(ids))]


INSTRUCT = """
UPDATE parcels SET instruction_id = given.instruction_id
FROM unnest($2::text[], $3::text[]) AS given (id, instruction_id) WHERE parcels.mode = $1 AND parcels.id = given.id
"""


async def instruct_any_account(tx: Connection, mode: Mode, instructions: Mapping[str, str]) -> None:
    """The instruction of each of these locked parcels."""
    await tx.execute(INSTRUCT, mode, list(instructions), list(instructions.values()))


LOCK_INSTRUCTED = "SELECT id FROM parcels WHERE instruction_id = ANY ($1::text[]) ORDER BY id FOR UPDATE"


async def lock_instructed_any_account(tx: Connection, instruction_ids: Collection[str]) -> None:
    if instruction_ids:
        await tx.execute(LOCK_INSTRUCTED, list(instruction_ids))


# With the other lots of its holding: they get another one together.
LOCK_LOT = """
SELECT id FROM lots
WHERE id = $1 OR (registry_account, holding_id) = (SELECT registry_account, holding_id FROM lots WHERE id = $1)
ORDER BY id FOR NO KEY UPDATE
"""


async def lock_lot_before_parcels(tx: Connection, lot_id: str) -> None:
    """For what changes the lot after its parcels were locked."""
    await tx.execute(LOCK_LOT, lot_id)


# Parcels of a lot that was invalidated meanwhile are invalid now.
RELEASE = """
UPDATE parcels SET instruction_id = NULL, desk_note = $3,
                   status = CASE WHEN invalidated_at IS NULL THEN status ELSE 'invalid' END
WHERE mode = $1 AND instruction_id = ANY ($2::text[]) AND status = 'to_retire'
RETURNING status
"""


async def release_any_account(
    tx: Connection, mode: Mode, instruction_ids: Collection[str], desk_note: str | None = None
) -> None:
    """Parcels that closed instructions have not retired are waiting again, or with a note for a person."""
    released = await tx.fetch(RELEASE, mode, list(instruction_ids), desk_note)
    if any(row["status"] == ParcelStatus.INVALID for row in released):
        # Their orders have waited for the answer.
        await wake_resupply(tx, mode)


PAUSE_LOT = """
UPDATE lots SET paused_at = $2, pause_reason = $3 WHERE id = $1 AND paused_at IS NULL RETURNING id
"""
RESUME_LOT = """
UPDATE lots SET paused_at = NULL, pause_reason = NULL WHERE id = $1 AND paused_at IS NOT NULL RETURNING id
"""


async def pause_lot(tx: Connection, lot_id: str, reason: str, now: datetime) -> bool:
    """Nothing is allocated from it, or asked for, from now on. False if it was paused already."""
    return await tx.fetchval(PAUSE_LOT, lot_id, now, reason) is not None


async def resume_lot(tx: Connection, lot_id: str) -> bool:
    return await tx.fetchval(RESUME_LOT, lot_id) is not None


IS_INVALID = "SELECT invalidated_at IS NOT NULL FROM lots WHERE id = $1"


async def is_invalid(connection: Connection, lot_id: str) -> bool:
    """Whether the lot was invalidated."""
    return bool(await connection.fetchval(IS_INVALID, lot_id))


# Lots whose units that are not retired are exactly those of a holding, without an open request. A holding that is gone
# was split by something else than a request.
FIND_CONNECTABLE = """
SELECT lot.id, held.id AS holding_id, lot.registry_account IS NULL AS is_new
FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS held (id, namespace, first, last, units)
JOIN serial_blocks block ON block.namespace = held.namespace
JOIN lots lot ON lot.serial_block = block.number AND lot.first_number <= held.first AND held.last <= lot.last_number
WHERE lot.mode = $1 AND lot.status = 'held' AND lot.invalidated_at IS NULL
  AND (lot.registry_account IS NULL OR (lot.registry_account = $2 AND lot.holding_id <> ALL ($3)))
  AND NOT EXISTS (SELECT FROM parcels busy WHERE busy.mode = lot.mode AND busy.lot_id = lot.id
                    AND busy.status = 'to_retire' AND busy.instruction_id IS NOT NULL)
  AND NOT EXISTS (SELECT FROM lots other WHERE other.registry_account = $2 AND other.holding_id = held.id)
  AND held.units * lot.unit_grams = lot.quantity_grams - lot.allocated_grams + coalesce((
      SELECT sum(parcel.quantity_grams) FROM parcels parcel
      WHERE parcel.mode = lot.mode AND parcel.lot_id = lot.id AND parcel.status IN ('open', 'to_retire')), 0)
ORDER BY lot.id FOR NO KEY UPDATE OF lot
"""
CONNECT = """
UPDATE lots SET registry_account = $2, holding_id = found.holding_id
FROM unnest($3::text[], $4::text[]) AS found (id, holding_id) WHERE lots.mode = $1 AND lots.id = found.id
"""
# Somebody may be retiring them already.
LEAVE_TO_DESK = """
UPDATE parcels SET desk_note = 'It was on the work list before the account at the registry was connected.'
WHERE mode = $1 AND lot_id = ANY ($2::text[]) AND status = 'to_retire' AND desk_note IS NULL
"""


async def connect_lots_any_account(
    tx: Connection, mode: Mode, registry_account: str, holdings: Sequence[tuple[str, str, int, int, int]]
) -> dict[str, str]:
    """Holdings: id, namespace, first and last unit, number of units. Returns the lots that have got one of them."""
    given = [list(column) for column in zip(*holdings, strict=True)] if holdings else [[] for _ in range(5)]
    rows = await tx.fetch(FIND_CONNECTABLE, mode, registry_account, *given)
    found = {row["id"]: row["holding_id"] for row in rows}
    await tx.execute(CONNECT, mode, registry_account, list(found), list(found.values()))
    await tx.execute(LEAVE_TO_DESK, mode, [row["id"] for row in rows if row["is_new"]])
    return found


SET_HOLDING = "UPDATE lots SET holding_id = $3 WHERE registry_account = $1 AND holding_id = $2"


async def set_holding(tx: Connection, registry_account: str, used_id: str, holding_id: str) -> None:
    """The holding that has what is left of a used one."""
    await tx.execute(SET_HOLDING, registry_account, used_id, holding_id)


CLOSE_UNITS = """
UPDATE parcels SET status = 'to_retire', close_at = NULL, account_id = NULL, in_service_name = true, beneficiary = $3,
                   closed_at = $4
FROM shares share
WHERE share.account_id = $1 AND share.order_id = $2 AND share.mode = 'test'
  AND parcels.mode = share.mode AND parcels.id = share.parcel_id AND parcels.status = 'open'
"""
LIST_PARCELS = """
SELECT parcel.id FROM shares share
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE share.account_id = $1 AND share.order_id = $2 AND parcel.status = 'to_retire'
"""


async def close_test_units(tx: Connection, scope: Scope, order_id: str, *, service_name: str, now: datetime) -> None:
    """Put the open units of a test order on the way to the registry, in the service's name."""
    await tx.execute(CLOSE_UNITS, scope.account_id, order_id, service_name, now)


async def list_unretired(connection: Connection, scope: Scope, order_id: str) -> list[str]:
    """The parcels of the order that are still to be retired."""
    return [row["id"] for row in await connection.fetch(LIST_PARCELS, scope.account_id, order_id)]
