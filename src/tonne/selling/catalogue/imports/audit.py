"""The audit entries of a catalogue import: one for each object that changed, and one for the import."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from tonne.platform.documents.sheets.read_sheet import R, Row, RowChanges
from tonne.platform.events.audit.record import Entry, Values
from tonne.platform.values.context import Mode, to_wire
from tonne.selling.catalogue.imports.plan import BundleProjectRow, CataloguePlan, DefaultRow, ExchangeRateRow, Files
from tonne.selling.catalogue.imports.store import CatalogueHead, Ids


def catalogue_entries(head: CatalogueHead, plan: CataloguePlan) -> Iterator[Entry]:
    """Writes the entries of all files except lots."""
    yield from row_entries("project", plan.projects, plan.project_ids, head.mode)
    yield from row_entries("bundle", plan.bundles, plan.bundle_ids, head.mode, currency=head.currency)
    yield from _composition_entries(plan, head.mode)
    rates = {row.key: _pair(row) for row in plan.exchange_rates.saved}
    yield from row_entries("exchange_rate", plan.exchange_rates, rates, head.mode)
    if plan.defaults:
        before, after = (_choices(rows) for rows in (plan.defaults.stored.values(), plan.selection))
        yield Entry(
            action="catalogue.default_set",
            subject_id=head.mode,
            mode=head.mode,
            before={"bundle_selection": before},
            after={"bundle_selection": after},
        )


def row_entries(kind: str, changes: RowChanges[R], ids: Ids, mode: Mode, **details: Any) -> Iterator[Entry]:
    """An entry for each new and each changed row."""
    for row in changes.new:
        yield Entry(action=f"{kind}.created", subject_id=ids[row.key], mode=mode, after=_values(row), details=details)
    for row in changes.changed:
        yield Entry(
            action=f"{kind}.changed",
            subject_id=ids[row.key],
            mode=mode,
            before=_values(changes.stored[row.key]),
            after=_values(row),
            details=details,
        )


def import_entry(head: CatalogueHead, version: int, files: Files, changes: Iterable[RowChanges[Any]]) -> Entry:
    """What was imported. The digests identify the files."""
    counts = {each.file: each for each in changes}
    return Entry(
        action="catalogue.imported",
        subject_id=head.mode,
        mode=head.mode,
        before={"version": head.version},
        after={"version": version},
        details={
            "currency": head.currency,
            "files": [
                {
                    "name": file.name,
                    "sha256": sha256(file.content).hexdigest(),
                    "new": len(counts[file.name].new),
                    "changed": len(counts[file.name].changed),
                    "removed": len(counts[file.name].removed),
                }
                for file in files.values()
            ],
        },
    )


def _values(row: Row) -> Values:
    """Without cells that are empty. A stored rate has trailing zeros, which the file has not."""
    values = {name: value for name, value in asdict(row).items() if name != "line" and value is not None}
    return values | {"rate": f"{row.rate.normalize():f}"} if isinstance(row, ExchangeRateRow) else values


def _pair(row: ExchangeRateRow) -> str:
    return f"{row.base}/{row.quote} {to_wire(row.as_of)}"


def _choices(rows: Iterable[DefaultRow]) -> list[Values]:
    return [{"bundle": row.bundle_slug, "percentage": row.percentage} for row in rows]


def _composition_entries(plan: CataloguePlan, mode: Mode) -> Iterator[Entry]:
    """One for each bundle whose projects changed, with the weights of these projects."""
    changes = plan.bundle_projects
    before: dict[str, dict[str, Any]] = {}
    after: dict[str, dict[str, Any]] = {}

    def note(values: dict[str, dict[str, Any]], row: BundleProjectRow) -> None:
        project = values.setdefault(plan.bundle_ids[(row.bundle_slug,)], {})
        project[plan.project_ids[row.project_key]] = {"weight": row.weight, "position": row.position}

    for row in changes.removed:
        note(before, row)
    for row in changes.changed:
        note(before, changes.stored[row.key])
    for row in changes.saved:
        note(after, row)
    for bundle_id in before | after:
        yield Entry(
            action="bundle.projects_changed",
            subject_id=bundle_id,
            mode=mode,
            before=before.get(bundle_id, {}),
            after=after.get(bundle_id, {}),
        )
