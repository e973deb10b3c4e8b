"""Import emission factors from a CSV file: report every error first, then add versions."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid
from tonne.platform.documents.sheets.read_sheet import RowChanges, SheetFile, compare
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor
from tonne.selling.estimates.factors import import_rows, store
from tonne.selling.estimates.factors.model import FactorSet


class FactorImport(Struct, frozen=True):
    """What an import changes, or would change."""

    changes: RowChanges[import_rows.FactorRow]
    sources: Sequence[str]
    licences: Sequence[str]


async def import_factors(
    tx: Connection, file: SheetFile, *, actor: Actor, now: datetime, apply: bool = True
) -> FactorImport:
    """All or nothing. Importing the same file again changes nothing.

    A changed factor becomes a new version; estimates keep the one that they were calculated with. With `apply=False`
    nothing is written.
    """
    if apply:
        await store.lock_factors(tx)
    sheet = import_rows.read_factors(file)
    if not sheet.errors and not sheet.rows:
        sheet.errors.append(RowError(file.name, None, None, "the file has no rows: add some below the header."))
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    known = FactorSet((*import_rows.shipped_factors(), *await store.load_latest(tx)))
    # Codes are compared as they are stored, also if the file leaves them out.
    rows = [_with_code(row) for row in sheet.rows]
    changes = compare(file.name, rows, [import_rows.to_row(factor) for factor in known.all])
    planned = FactorImport(
        changes, sorted({row.source for row in changes.saved}), sorted({row.licence for row in changes.saved})
    )
    if apply and changes:
        versions = {factor.id: factor.version for factor in known.all}
        added = [
            import_rows.to_factor(row, version=versions.get(row.id, 0) + 1, created_at=now) for row in changes.saved
        ]
        await store.insert_versions(tx, added)
        await audit.record(
            tx,
            None,
            "emission_factors.imported",
            actor=actor,
            at=now,
            subject_id=file.name,
            sha256=sha256(file.content).hexdigest(),
            new=len(changes.new),
            changed=len(changes.changed),
            unchanged=changes.unchanged_count,
            sources=list(planned.sources),
            licences=list(planned.licences),
        )
    return planned


def _with_code(row: import_rows.FactorRow) -> import_rows.FactorRow:
    return replace(row, source_code=import_rows.source_code(row))
