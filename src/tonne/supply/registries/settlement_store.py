"""SQL of what persons have found out about requests at registries."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of, value_or_none
from tonne.platform.values.context import By, Mode
from tonne_verify.serials.parse import stored_units
from tonne_verify.serials.units import UnitRange


class StoredSettlement(Struct, frozen=True):
    """`document` is the JSON of a RequestSettlement."""

    request_id: str
    mode: Mode
    lot_id: str
    document: str
    requested_by: str
    requested_at: datetime


NOTE = """
UPDATE registry_instructions SET settlement = $2, settlement_by = $3, settlement_at = $4
WHERE id = $1 AND closed_at IS NULL
"""


async def note(tx: Connection, request_id: str, document: str, by: By) -> None:
    await tx.execute(NOTE, request_id, document, str(by.actor), by.at)


_STORED = """
id AS request_id, mode, lot_id, settlement AS document, settlement_by AS requested_by, settlement_at AS requested_at
"""
FIND = f"SELECT {_STORED} FROM registry_instructions WHERE id = $1 AND settlement IS NOT NULL"  # noqa: S608


async def find(connection: Connection, request_id: str) -> StoredSettlement | None:
    return value_or_none(StoredSettlement, await connection.fetchrow(FIND, request_id))


LIST_WAITING = f"""
SELECT {_STORED} FROM registry_instructions
WHERE mode = $1 AND settlement IS NOT NULL AND next_attempt_at IS NOT NULL ORDER BY settlement_at, id LIMIT 200
"""  # noqa: S608 - a constant


async def list_waiting(connection: Connection, mode: Mode) -> list[StoredSettlement]:
    """Those that are not approved yet, oldest first."""
    return [value_of(StoredSettlement, row) for row in await connection.fetch(LIST_WAITING, mode)]


class LotSerial(Struct, frozen=True):
    registry: str
    serial: str
    unit_grams: int

    @property
    def units(self) -> UnitRange:
        return stored_units(self.registry, self.serial, self.unit_grams)


FIND_LOT = """
SELECT project.registry, lot.serial, lot.unit_grams
FROM lots lot JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 AND lot.id = $2
"""


async def find_lot(connection: Connection, mode: Mode, lot_id: str) -> LotSerial:
    row = await connection.fetchrow(FIND_LOT, mode, lot_id)
    if row is None:
        raise LookupError(f"lot {lot_id}")
    return LotSerial(**row)
