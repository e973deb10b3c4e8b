"""Imports in the browser: the file is stored, run as a rehearsal for the preview, then applied or discarded.

Both runs use the import of the command line, so the preview shows exactly what applying the same file would do.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from tonne.apps.backoffice.money.confirmed_step import rehearse
from tonne.platform.db.database import Connection, Database, parameters_of, value_of
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile, read_sheet
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode, new_id, same_named
from tonne.platform.values.errors import Kind, TonneError
from tonne.selling.catalogue.imports.import_catalogue import CatalogueError, ImportReport
from tonne.selling.catalogue.imports.plan import FileKind, Files
from tonne.supply.retirements.confirmations import confirm_lines
from tonne.supply.retirements.confirmations.audit import ConfirmationSource
from tonne.supply.retirements.confirmations.confirm_lines import import_confirmations
from tonne.supply.retirements.confirmations.rows import ConfirmationRow
from tonne.supply.retirements.confirmations.work_list import EXPORT_COLUMNS
from tonne.supply.stock.lots.import_lots import import_files


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


# Larger files are imported with the command line.
MAX_UPLOAD_BYTES = 4 * 1024 * 1024
KEPT_FOR = timedelta(days=1)
# Parcels of which the page about the result shows the orders.
MAX_PARCELS = 1000
MAX_DETAILS = 200
# Where lines come from that are in no file, for the audit log.
DESK = "retirement desk"


class StagedImportNotFound(TonneError, kind=Kind.NOT_FOUND, code="staged_import_not_found"):
    """On the command line: an uploaded file does not exist any more: they are kept for a day.

    Upload it again.
    """

    message = "There is no such import, or it was discarded. Files are kept for a day: upload the file again."


class StagedImportApplied(TonneError, kind=Kind.CONFLICT, code="staged_import_applied"):
    """On the command line: a file that was uploaded in the operator's area is applied twice, or after it was
    discarded.

    Upload it again.
    """

    message = "This import was already applied, or it was discarded."


class FileSummary(msgspec.Struct, frozen=True):
    name: str
    new: int
    changed: int
    unchanged: int
    removed: int


class ImportResult(msgspec.Struct, frozen=True):
    """What an import did. `version` is that of the catalogue, None for confirmations."""

    confirmed_count: int = 0
    confirmed_grams: int = 0
    corrected_count: int = 0
    known_count: int = 0
    parcel_ids: list[str] = []
    version: int | None = None
    currency: str = ""
    files: list[FileSummary] = []
    details: list[str] = []

    @property
    def is_change(self) -> bool:
        files = any(file.new or file.changed or file.removed for file in self.files)
        return bool(self.confirmed_count or self.corrected_count or files)


class Rehearsal(msgspec.Struct, frozen=True):
    """What applying would do: `result`, or the errors because of which nothing would be imported."""

    result: ImportResult | None = None
    report: ImportReport | None = None
    errors: Sequence[RowError] = ()
    # Why the import cannot start.
    refusal: str = ""


class _Outcome(msgspec.Struct, frozen=True):
    result: ImportResult
    report: ImportReport | None = msgspec.field(default=None)


class StagedImports(Struct, frozen=True):
    database: Database
    settings: Settings

    async def stage(self, mode: Mode, kind: ImportKind, files: Sequence[SheetFile], *, by: By, **options: Any) -> str:
        """Store the files for the preview; returns the id of the import. `options` are fields of StagedImport."""
        staged = StagedImport(
            id=new_id("imp"), mode=mode, kind=kind, staged_at=by.at, staged_by=str(by.actor), **options
        )
        await self.database.commit(insert_staged, staged, files, delete_before=by.at - KEPT_FOR)
        return staged.id

    async def rehearse(self, staged: StagedImport, *, by: By) -> Rehearsal:
        """Rolled back."""

        async def run(tx: Connection) -> _Outcome:
            return await self._run(tx, staged, await read_files(tx, staged), by=by)

        try:
            outcome = await rehearse(self.database, run)
        except SheetInvalid as error:
            return Rehearsal(errors=error.errors)
        except CatalogueError as error:
            return Rehearsal(refusal=str(error))
        return Rehearsal(outcome.result, outcome.report)

    async def check_confirmations(
        self, mode: Mode, rows: Sequence[ConfirmationRow], *, now: datetime
    ) -> Sequence[confirm_lines.LineFault]:
        """The faults of confirmations that are not stored yet."""
        plan = await rehearse(self.database, lambda tx: self._plan(tx, mode, rows, now))
        return plan.faults

    async def stage_confirmations(
        self, mode: Mode, rows: Sequence[ConfirmationRow], reference: str | None, *, by: By
    ) -> str:
        lines, kind = SheetFile(DESK, msgspec.json.encode(rows)), ImportKind.CONFIRMED_LINES
        return await self.stage(mode, kind, [lines], by=by, reference=reference)

    async def apply(self, staged: StagedImport, *, by: By) -> Rehearsal:
        """Import exactly the files that were previewed. With errors, nothing is imported."""
        try:
            async with self.database.transaction() as tx:
                outcome = await self._run(tx, staged, await read_files(tx, staged), by=by)
                # Two operators may press the button at the same time: the second transaction is rolled back.
                if not await mark_applied(tx, staged, msgspec.json.encode(outcome.result), by.at):
                    raise StagedImportApplied
        except SheetInvalid as error:
            return Rehearsal(errors=error.errors)
        except CatalogueError as error:
            return Rehearsal(refusal=str(error))
        return Rehearsal(outcome.result, outcome.report)

    async def _run(self, tx: Connection, staged: StagedImport, files: Sequence[SheetFile], *, by: By) -> _Outcome:
        if not files:
            raise StagedImportApplied
        if staged.kind is ImportKind.CONFIRMED_LINES:
            return _Outcome(_confirmed(await self._confirm(tx, staged, files[0].content, by=by)))
        if staged.kind is ImportKind.CONFIRMATIONS:
            confirmations = await import_confirmations(
                tx,
                staged.mode,
                files[0],
                by=by,
                pages=self.settings.retirement_pages,
                reference=staged.reference,
            )
            return _Outcome(_confirmed(confirmations))
        by_kind: Files = (
            {FileKind.LOTS: files[0]}
            if staged.kind is ImportKind.LOTS
            else {FileKind(file.name): file for file in files}
        )
        factor = Decimal(str(self.settings.rate_change_factor))
        report = await import_files(
            tx,
            staged.mode,
            by_kind,
            by=by,
            currency=staged.currency,
            max_rate_change=None if staged.allow_large_change else factor,
        )
        return _Outcome(_imported(report), report)

    async def _confirm(
        self, tx: Connection, staged: StagedImport, lines: bytes, *, by: By
    ) -> confirm_lines.ConfirmationReport:
        rows = msgspec.json.decode(lines, type=list[ConfirmationRow])
        plan = await self._plan(tx, staged.mode, rows, by.at)
        if plan.faults:
            raise SheetInvalid([RowError(DESK, *fault) for fault in plan.faults])
        source = ConfirmationSource(DESK, sha256(lines).hexdigest(), staged.reference)
        return await confirm_lines.record_confirmations(tx, staged.mode, plan, source, by=by)

    async def _plan(
        self, tx: Connection, mode: Mode, rows: Sequence[ConfirmationRow], now: datetime
    ) -> confirm_lines.ConfirmationPlan:
        return await confirm_lines.plan_confirmations(tx, mode, rows, now=now, pages=self.settings.retirement_pages)


def _confirmed(report: confirm_lines.ConfirmationReport) -> ImportResult:
    parcel_ids, details = report.parcel_ids[:MAX_PARCELS], report.details[:MAX_DETAILS]
    return same_named(ImportResult, report, parcel_ids=parcel_ids, details=details)


def _imported(report: ImportReport) -> ImportResult:
    files = [
        FileSummary(each.file, len(each.new), len(each.changed), each.unchanged_count, len(each.removed))
        for each in report.files
    ]
    details = list(report.details[:MAX_DETAILS])
    return ImportResult(version=report.version, currency=report.currency, files=files, details=details)


def confirmed_rows(staged: StagedImport, files: Sequence[SheetFile]) -> list[ConfirmationRow]:
    """The lines of confirmations that the rehearsal has accepted."""
    match staged.kind:
        case ImportKind.CONFIRMATIONS:
            return [row for file in files for row in read_sheet(file, ConfirmationRow, ignored=EXPORT_COLUMNS).rows]
        case ImportKind.CONFIRMED_LINES:
            return [row for file in files for row in msgspec.json.decode(file.content, type=list[ConfirmationRow])]
        case _:
            return []


def read_result(staged: StagedImport) -> ImportResult | None:
    return None if staged.result is None else msgspec.json.decode(staged.result, type=ImportResult)
