"""Forms for the facts that certificates state, of a project and of a lot.

A form becomes a line of projects.csv or lots.csv, and goes through the import with its preview.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from tonne.apps.backoffice.catalogue.staged_imports import ImportKind, StagedImports
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.imports.store import read_projects
from tonne.supply.stock.lots.lot_facts import LotFacts
from tonne.supply.stock.lots.lots import read_lots

OF_PROJECT, OF_LOT = "/supply/projects/{project_id}/facts", "/supply/lots/{lot_id}/facts"
_YES_NO = ("true", "false")
_DAY = "Such as 2026-01-31."


class FactField(Struct, frozen=True):
    """`choices` are those of a list; `is_long`: one item a line."""

    label: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    is_long: bool = False


FIELDS = {
    "mechanism": FactField("Mechanism", choices=("avoidance", "removal")),
    "removal_percent": FactField("Part of removal in per cent", "1 to 99, if the credits are mixed."),
    "sink": FactField("Sink", choices=("biogenic", "technological", "hybrid")),
    "methodology": FactField("Methodology"),
    "methodology_version": FactField("Version of the methodology"),
    "durability_years": FactField("Years of storage"),
    "reversible": FactField("Can be reversed", choices=_YES_NO),
    "buffer": FactField("Has a buffer pool", choices=_YES_NO),
    "ratings": FactField(
        "Ratings", "Agency ; grade ; date ; address: one a line, as they were published.", is_long=True
    ),
    "labels": FactField(
        "Labels", "Code ; source ; date: one a line, such as icvcm_ccp ; Verra ; 2026-02-03.", is_long=True
    ),
    "article_6": FactField("Article 6", choices=("none", "authorised", "adjusted")),
    "article_6_uses": FactField("Authorised uses", "ndc, international or other: one a line.", is_long=True),
    "article_6_source": FactField("Who says so about Article 6"),
    "article_6_date": FactField("As of, for Article 6", _DAY),
    "verifying_body": FactField("Verifier"),
    "verified_on": FactField("Date of the report", _DAY),
    "facts_source": FactField("Source of the other facts", "Who says so."),
    "facts_as_of": FactField("As of", _DAY),
}
PROJECT_FACTS = (
    *("mechanism", "removal_percent", "sink", "methodology", "methodology_version", "durability_years", "reversible"),
    *("buffer", "ratings", "verifying_body", "verified_on", "facts_source", "facts_as_of"),
)
LOT_FACTS = LotFacts.__struct_fields__
_OF_PROJECT_LINE = (
    *("registry", "registry_project_id", "name", "slug", "country", "type", "granularity_grams"),
    *("description", "image", "registry_url"),
)
_OF_LOT_LINE = ("registry", "registry_project_id", "vintage", "serial", "status", "retirement_url", "retired_on")


class FactsPage(DashboardPage, frozen=True):
    imports: StagedImports

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={OF_PROJECT: self.show_project, OF_LOT: self.show_lot},
            forms={OF_PROJECT: self.change_project, OF_LOT: self.change_lot},
        )

    async def show_project(self, viewer: OperatorViewer) -> Response:
        row = await self._project(viewer)
        return self._page(viewer, row.name, {name: cell_of(getattr(row, name)) for name in PROJECT_FACTS})

    async def change_project(self, viewer: OperatorViewer, form: Form) -> Response:
        row = await self._project(viewer)
        line = {name: getattr(row, name) for name in _OF_PROJECT_LINE}
        return await self._stage(viewer, ImportKind.CATALOGUE, FileKind.PROJECTS, line | _sent(form, PROJECT_FACTS))

    async def show_lot(self, viewer: OperatorViewer) -> Response:
        lot = await self._lot(viewer)
        return self._page(viewer, lot.units.text, {name: cell_of(getattr(lot.row, name)) for name in LOT_FACTS})

    async def change_lot(self, viewer: OperatorViewer, form: Form) -> Response:
        lot = await self._lot(viewer)
        line = {name: getattr(lot.row, name) for name in _OF_LOT_LINE}
        line |= {"lot_id": lot.id, "quantity": format_tonnes(lot.units.quantity_grams)}
        return await self._stage(viewer, ImportKind.LOTS, FileKind.LOTS, line | _sent(form, LOT_FACTS))

    async def _project(self, viewer: OperatorViewer) -> Any:
        projects = await self.database.run(read_projects, viewer.mode)
        return existing(projects.get(viewer.request.path("project_id")))

    async def _lot(self, viewer: OperatorViewer) -> Any:
        lots = await self.database.run(read_lots, [], [viewer.request.path("lot_id")])
        return existing(next((lot for lot in lots if lot.mode is viewer.mode), None))

    async def _stage(
        self, viewer: OperatorViewer, kind: ImportKind, name: FileKind, line: Mapping[str, object]
    ) -> Response:
        text = io.StringIO(newline="")
        csv.writer(text).writerows([line.keys(), map(cell_of, line.values())])
        file = SheetFile(name, text.getvalue().encode())
        import_id = await self.imports.stage(viewer.mode, kind, [file], by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/imports/{import_id}")

    def _page(self, viewer: OperatorViewer, subject: str, cells: Mapping[str, str]) -> Response:
        facts = [(name, FIELDS[name], cell) for name, cell in cells.items()]
        return self.layout.page(viewer, "operator_facts.html", subject=subject, facts=facts)


def _sent(form: Form, names: Iterable[str]) -> dict[str, str]:
    """Items of several lines are separated by `|` in a file."""
    return {name: " | ".join(filter(None, map(str.strip, form.value(name).splitlines()))) for name in names}


def cell_of(value: object) -> str:
    """As a file has it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case date():
            return value.isoformat()
        case list():
            return " | ".join(map(cell_of, value))
        case msgspec.Struct():
            return " ; ".join(map(cell_of, msgspec.structs.astuple(value)))
        case _:
            return str(value)
