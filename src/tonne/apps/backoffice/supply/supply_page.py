"""Supply: what is free, reserved, allocated and retired of each project and lot, backorders, and imports of lots."""

from collections.abc import Callable

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES, ImportKind, StagedImports
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.supply.supply_bars import LABELS, bar_of_lot, bar_of_project
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.values.context import Mode
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.stock import supply_reads
from tonne.supply.stock.lots.export_lots import export_lots
from tonne.supply.stock.lots.import_lots import as_lots_file
from tonne.supply.stock.lots.lot_store import list_lots, list_project_lots, list_withdrawn_lots
from tonne.supply.stock.lots.public_exports import FIELDS, Columns, ColumnsUnknown, ExportDates, ExportRequest
from tonne.supply.stock.supply_cover import ProjectCover, cover_of, read_sales

PROJECTS_PER_PAGE = 50
LOTS_PER_PAGE = 50
BACKORDERS_SHOWN = 25
ERRORS_SHOWN = 20
# More are counted only up to here.
MAX_BACKORDERS = 1000


class SupplyPage(DashboardPage, frozen=True):
    imports: StagedImports
    catalogues: Catalogues

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={
                "/supply": self.show,
                "/supply/export": self.export,
                "/supply/projects/{project_id}": self.show_project,
            },
            forms={"/supply/import": self.upload},
            uploads={"/supply/import": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        file = read_upload(viewer.request, form, "lots", "tonne catalogue import-lots")
        if file is None:
            return await self.show(viewer, form)
        try:
            request = self._read_request(form)
            async with self.database.connection() as connection:
                lots, notes = await as_lots_file(connection, viewer.mode, file, request)
        except SheetInvalid as error:
            return self._export_page(viewer, form, file, error)
        by, reference = viewer.actor.at(self.clock()), " ".join(notes) or None
        import_id = await self.imports.stage(viewer.mode, ImportKind.LOTS, [lots], by=by, reference=reference)
        return see_other(f"{viewer.base}/imports/{import_id}")

    def _read_request(self, form: Form) -> ExportRequest:
        """Raises SheetInvalid if the form is not complete."""
        chosen = {name: value for name in FIELDS if (value := form.value(f"column_{name}"))}
        dates, exported_on = form.value("dates"), form.day("exported_on")
        if form.faults:
            raise SheetInvalid([])
        return ExportRequest(
            exported_on=(exported_on or self.clock()).date(),
            retirement_url=form.value("retirement_url") or None,
            holds_issued=form.is_checked("held"),
            dates=ExportDates(dates) if dates in set(ExportDates) else ExportDates.ISO,
            registry=form.value("registry"),
            columns=Columns(**chosen) if set(FIELDS) - {"retired_on"} <= chosen.keys() else None,
        )

    def _export_page(self, viewer: OperatorViewer, form: Form, file: SheetFile, error: SheetInvalid) -> Response:
        """What a public export lacks, to be stated with the file; and of an unknown file which columns it has."""
        return self.layout.page(
            viewer,
            "operator_export.html",
            form,
            file=file.name,
            errors=error.errors[:ERRORS_SHOWN],
            header=error.header if isinstance(error, ColumnsUnknown) else (),
            names=FIELDS,
            entered=form,
        )

    async def export(self, viewer: OperatorViewer) -> Response:
        """The lots that can be corrected."""
        async with self.database.connection() as connection:
            lots = [each for each in await list_lots(connection, viewer.mode) if not each.allocated_grams]
        headers = {"Content-Disposition": 'attachment; filename="lots.csv"', "Cache-Control": "no-store"}
        return Response(await in_turn(export_lots, lots), media_type=b"text/csv; charset=utf-8", headers=headers)

    async def show_project(self, viewer: OperatorViewer) -> Response:
        project_id, after = viewer.request.path("project_id"), viewer.request.query("after")[0] or ""
        vintage, _, lot_id = after.partition(".")
        start = (int(vintage), lot_id) if vintage.isdecimal() and len(vintage) == 4 else (0, "")
        async with self.database.connection() as connection:
            project = existing(await supply_reads.find_project(connection, viewer.mode, project_id))
            found = await list_project_lots(connection, viewer.mode, project_id, after=start, limit=LOTS_PER_PAGE + 1)
            lots = await supply_reads.add_retired_quickly_any_account(connection, viewer.mode, found[:LOTS_PER_PAGE])
            withdrawn = [
                lot
                for lot in await list_withdrawn_lots(connection, viewer.mode)
                if (lot.registry, lot.registry_project_id) == (project.registry, project.registry_project_id)
            ]
        last = lots[-1] if len(found) > LOTS_PER_PAGE else None
        return self.layout.page(
            viewer,
            "operator_supply_project.html",
            project=project,
            lots=[(lot, bar_of_lot(lot)) for lot in lots],
            withdrawn=withdrawn[-LOTS_PER_PAGE:],
            labels=LABELS,
            next_after=None if last is None else f"{last.vintage}.{last.id}",
        )

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        catalogue = await self.catalogues.current(viewer.mode)
        async with self.database.connection() as connection:
            every = await supply_reads.list_supply_any_account(connection, viewer.mode)
            sales = await read_sales(connection, viewer.mode)
            backorders = await supply_reads.list_backorders_any_account(
                connection, viewer.mode, self.clock(), MAX_BACKORDERS
            )
        # Supply of test mode does not end.
        covers = {} if viewer.mode is Mode.TEST else {each.project_id: each for each in cover_of(catalogue, sales)}
        ordered = sorted(every, key=_shortest_first(covers))
        after = viewer.request.query("after")[0]
        start = next((i + 1 for i, each in enumerate(ordered) if each.project_id == after), 0)
        page = ordered[start : start + PROJECTS_PER_PAGE]
        with_lots = {each.project_id for each in every}
        return self.layout.page(
            viewer,
            "operator_supply.html",
            form,
            projects=[(each, bar_of_project(each), covers.get(each.project_id)) for each in page],
            without_lots=[each for each in covers.values() if each.project_id not in with_lots],
            labels=LABELS,
            sales_days=sales.days,
            has_cover=viewer.mode is Mode.LIVE,
            next_after=page[-1].project_id if start + PROJECTS_PER_PAGE < len(ordered) else None,
            backorders=backorders[:BACKORDERS_SHOWN],
            backorder_count=len(backorders),
            is_more=len(backorders) == MAX_BACKORDERS,
            backorder_grams=sum(each.quantity_grams for each in backorders),
        )


def _shortest_first(covers: dict[str, ProjectCover]) -> Callable[[supply_reads.ProjectSupply], tuple[bool, float, str]]:
    """Projects on sale whose supply ends first come first; those that are not on sale last."""

    def key(supply: supply_reads.ProjectSupply) -> tuple[bool, float, str]:
        cover = covers.get(supply.project_id)
        if cover is None:
            return True, 0.0, supply.name
        weeks = cover.weeks if cover.weeks is not None else float("inf")
        return False, weeks if cover.free_grams else -1.0, supply.name

    return key
