"""SQL of imports that an operator has prepared in the browser."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode


class ImportKind(StrEnum):
    # A file.
    CONFIRMATIONS = "confirmations"
    # Lines that were chosen on the retirement desk: a JSON list instead of a file.
    CONFIRMED_LINES = "confirmed_lines"
    LOTS = "lots"
    CATALOGUE = "catalogue"


class StagedImport(Struct, frozen=True, kw_only=True):
    """`result` says what the import did (JSON); None until it is applied."""

    id: str
    mode: Mode
    kind: ImportKind
    staged_at: datetime
    staged_by: str
    reference: str | None = None
    allow_large_change: bool = False
    currency: str | None = None
    applied_at: datetime | None = None
    result: bytes | None = None


DELETE_OLD = "DELETE FROM staged_imports WHERE staged_at < $1"
_STAGED = "id, mode, kind, reference, allow_large_change, currency, staged_at, staged_by"
INSERT_IMPORT = f"""
INSERT INTO staged_imports ({_STAGED}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""  # noqa: S608 - columns above
INSERT_FILES = """
INSERT INTO staged_files (import_id, name, content) SELECT $1, name, content
FROM unnest($2::text[], $3::bytea[]) AS file (name, content)
"""


async def insert_staged(
    tx: Connection, staged: StagedImport, files: Sequence[SheetFile], *, delete_before: datetime
) -> None:
    await tx.execute(DELETE_OLD, delete_before)
    await tx.execute(INSERT_IMPORT, *parameters_of(staged, _STAGED))
    await tx.execute(INSERT_FILES, staged.id, [file.name for file in files], [file.content for file in files])


FIND_IMPORT = f"SELECT {_STAGED}, applied_at, result FROM staged_imports WHERE id = $1 AND mode = $2"  # noqa: S608 - columns above


async def find_staged(connection: Connection, mode: Mode, import_id: str) -> StagedImport | None:
    row = await connection.fetchrow(FIND_IMPORT, import_id, mode)
    return None if row is None else value_of(StagedImport, row)


READ_FILES = "SELECT name, content FROM staged_files WHERE import_id = $1 ORDER BY name"


async def read_files(connection: Connection, staged: StagedImport) -> list[SheetFile]:
    return [SheetFile(row["name"], row["content"]) for row in await connection.fetch(READ_FILES, staged.id)]


ALLOW_LARGE_CHANGE = """
UPDATE staged_imports SET allow_large_change = true WHERE id = $1 AND mode = $2 AND applied_at IS NULL
"""


async def allow_large_change(tx: Connection, mode: Mode, import_id: str) -> None:
    await tx.execute(ALLOW_LARGE_CHANGE, import_id, mode)


MARK_APPLIED = """
UPDATE staged_imports SET applied_at = $2, result = $3 WHERE id = $1 AND applied_at IS NULL RETURNING true
"""
DELETE_FILES = "DELETE FROM staged_files WHERE import_id = $1"


async def mark_applied(tx: Connection, staged: StagedImport, result: bytes, now: datetime) -> bool:
    """False if it was applied or discarded meanwhile."""
    if await tx.fetchval(MARK_APPLIED, staged.id, now, result) is not True:
        return False
    await tx.execute(DELETE_FILES, staged.id)
    return True


DELETE_IMPORT = "DELETE FROM staged_imports WHERE id = $1 AND mode = $2 AND applied_at IS NULL"


async def delete_staged(tx: Connection, mode: Mode, import_id: str) -> None:
    await tx.execute(DELETE_IMPORT, import_id, mode)
