"""Import the catalogue from CSV files: plan and report every error first, then save."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import RowChanges
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports import store as import_store
from tonne.selling.catalogue.imports.plan import (
    CataloguePlan,
    DefaultRow,
    Files,
    Sheets,
    StoredCatalogue,
    plan_catalogue,
    read_files,
)
from tonne.selling.catalogue.imports.rate_changes import check_rates
from tonne.selling.catalogue.imports.store import CatalogueHead


class CatalogueError(Exception):
    """The import cannot start. The message says what to do, `command` how to do it on the command line."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class ImportReport(Struct, frozen=True):
    currency: str
    version: int
    changed: bool
    files: list[RowChanges[Any]]
    # Changes that a person should see one by one.
    details: tuple[str, ...] = ()


async def begin_import(
    tx: Connection, mode: Mode, files: Files, *, currency: str | None, max_rate_change: Decimal | None
) -> tuple[CatalogueHead, CataloguePlan]:
    """Plan the import of all files except lots, one import at a time. Nothing is written yet.

    Rows are matched by their key, so importing the same files again changes nothing. Only the first import needs
    `currency`. With `max_rate_change`, exchange rates that are probably wrong are errors.
    """
    await import_store.acquire_import_lock(tx)
    head = _check_currency(mode, await import_store.find_catalogue(tx, mode), currency)
    sheets = read_files(files, head.currency)
    plan = plan_catalogue(sheets, await _read_stored(tx, head, sheets))
    if max_rate_change is not None:
        # Only new and changed rates: importing an old file again must not fail because rates have moved since.
        rows = plan.exchange_rates.saved
        nearest = await import_store.read_nearest_rates(tx, mode, rows)
        plan.errors.extend(check_rates(sheets.exchange_rates.name, rows, nearest, max_rate_change))
    return head, plan


async def save_catalogue(tx: Connection, head: CatalogueHead, plan: CataloguePlan, now: datetime) -> None:
    mode, bundle_ids, project_ids = head.mode, plan.bundle_ids, plan.project_ids
    if head.version is None:
        await import_store.create_catalogue(tx, mode, head.currency)
    await import_store.save_projects(tx, mode, plan.projects.saved, project_ids, now)
    await import_store.save_bundles(tx, head, plan.bundles.saved, bundle_ids, now)
    await import_store.save_bundle_projects(
        tx,
        mode,
        plan.bundle_projects.saved,
        plan.bundle_projects.removed,
        bundle_ids=bundle_ids,
        project_ids=project_ids,
    )
    await import_store.save_exchange_rates(tx, mode, plan.exchange_rates.saved)
    if plan.defaults:
        await import_store.save_defaults(tx, mode, plan.selection, bundle_ids)


async def finish_import(tx: Connection, head: CatalogueHead, files: Iterable[RowChanges[Any]]) -> ImportReport:
    """Raise the catalogue's version if anything changed: servers then load it again."""
    changes = list(files)
    if head.version is not None and not any(changes):
        return ImportReport(head.currency, head.version, changed=False, files=changes)
    version = await import_store.raise_version(tx, head.mode)
    return ImportReport(head.currency, version, changed=True, files=changes)


def _check_currency(mode: Mode, head: CatalogueHead | None, currency: str | None) -> CatalogueHead:
    if currency is not None and currency not in DECIMALS:
        raise CatalogueError(
            f"{quoted(currency)} is not a currency: use its ISO 4217 code in capitals, such as EUR.",
            "For example: --currency EUR.",
        )
    if head is not None:
        if currency not in {None, head.currency}:
            raise CatalogueError(
                f"The {mode} catalogue is priced in {head.currency}, and {currency} would change the meaning of every "
                "price. Import without a currency.",
                "Omit --currency.",
            )
        return head
    if currency is None:
        raise CatalogueError(
            f"There is no {mode} catalogue yet: import one, and set the currency of its prices.",
            f"Use `tonne catalogue import --mode {mode}` with --currency.",
        )
    return CatalogueHead(mode, currency, None, [])


async def _read_stored(tx: Connection, head: CatalogueHead, sheets: Sheets) -> StoredCatalogue:
    mode = head.mode
    bundles = await import_store.read_bundles(tx, mode, head.currency)
    bundle_slugs = {row.bundle_slug for row in sheets.bundle_projects.rows}
    selection = [each for each in head.default_selection if each.bundle_id in bundles]
    return StoredCatalogue(
        projects=await import_store.read_projects(tx, mode),
        bundles=bundles,
        bundle_projects=await import_store.read_bundle_projects(tx, mode, bundle_slugs),
        exchange_rates=await import_store.read_exchange_rates(tx, mode, sheets.exchange_rates.rows),
        defaults=[
            DefaultRow(bundle_slug=bundles[each.bundle_id].slug, percentage=each.percentage, position=i)
            for i, each in enumerate(selection)
        ],
    )
