"""A job of the worker: applies scheduled prices, as an import of bundles.csv does."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from tonne.platform.db.batches import RETRY_AFTER, run_claimed
from tonne.platform.db.pool import Connection, Database
from tonne.platform.documents.sheets.csv_lines import SheetFile
from tonne.platform.documents.sheets.errors import SheetInvalid
from tonne.platform.values.actor import Actor, ActorKind
from tonne.platform.values.clock import Clock
from tonne.platform.values.currency import DECIMALS
from tonne.selling.catalogue.imports.rows import BundleRow, FileKind
from tonne.selling.catalogue.imports.store import acquire_import_lock, find_catalogue, read_bundles
from tonne.selling.catalogue.prices.price_change_store import PriceChange, claim_changes, mark_changed, postpone_changes
from tonne.supply.stock.lots.import_lots import import_files

BATCH = 100
JOB = Actor(ActorKind.SYSTEM, "apply_price_changes")
_COLUMNS = ("slug", "name", "description", "primary_image", "unit_price", "enabled", "position")


class ApplyPriceChanges:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run_once(self) -> bool:
        """Apply those whose time has come; false if there are none."""
        return await run_claimed(
            self._database,
            lambda tx, limit: claim_changes(tx, self._clock(), limit),
            self._apply,
            lambda tx, changes: postpone_changes(tx, changes, self._clock() + RETRY_AFTER),
            limit=BATCH,
            failure_event="price_change_not_applied",
            describe=lambda change: {"price_change_id": change.id},
        )

    async def _apply(self, tx: Connection, changes: Sequence[PriceChange]) -> None:
        for change in changes:
            await apply_price_change(tx, change, self._clock())


async def apply_price_change(tx: Connection, change: PriceChange, now: datetime, *, actor: Actor = JOB) -> None:
    """The caller has locked the change. Everything else of the bundle stays as it is."""
    # Before the bundle is read: an import that runs now may change its name.
    await acquire_import_lock(tx)
    head = await find_catalogue(tx, change.mode)
    if head is None:
        raise LookupError(f"There is no {change.mode} catalogue.")
    bundle = (await read_bundles(tx, change.mode, head.currency))[change.bundle_id]
    price = Decimal(change.unit_price_minor).scaleb(-DECIMALS[head.currency])
    file = SheetFile(FileKind.BUNDLES, _bundles_csv(replace(bundle, unit_price=price)))
    failure = None
    try:
        async with tx.transaction():
            await import_files(tx, change.mode, {FileKind.BUNDLES: file}, now, actor=actor)
    except SheetInvalid as error:
        failure = str(error)
    await mark_changed(tx, change, now, failure)


def _bundles_csv(row: BundleRow) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    cells = {name: getattr(row, name) for name in _COLUMNS}
    cells["enabled"] = "true" if row.enabled else "false"
    writer.writerow(["" if cells[name] is None else str(cells[name]) for name in _COLUMNS])
    return text.getvalue().encode()
