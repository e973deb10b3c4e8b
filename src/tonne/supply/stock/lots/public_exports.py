"""Public exports of registries as lines of lots.csv. No I/O.

They list what everybody has issued and retired, never what one account holds: the importing operator says which page
shows the retirements as theirs, that they hold what is not retired, and of which day the file is. Nothing else is added
to what the file says.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile, Unreadable, read_lines
from tonne.supply.stock.lots.export_facts import FactColumns, read_facts, stated
from tonne_verify.serials.spelling import plain_spelling, registry_id

_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
# Planned emission reductions of Gold Standard.
_PLANNED = re.compile(r"\bPERs?\b|planned", re.IGNORECASE)
_NAMES_SHOWN = 3
_YEAR = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])")


class ExportDates(StrEnum):
    """How a file writes dates. 2026-03-01 is read whatever is chosen."""

    ISO = "iso"
    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"


_FORMATS = {
    ExportDates.DAY_FIRST: ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y"),
    ExportDates.MONTH_FIRST: ("%m/%d/%Y", "%m-%d-%Y"),
}


class Columns(Struct, frozen=True):
    """The columns of a file that lots are made of. A row without a date of retirement is not retired."""

    serial: str
    project: str
    vintage: str
    quantity: str
    retired_on: str | None = None


FIELDS = Columns.__struct_fields__


class KnownExport(Struct, frozen=True):
    """`signs` are columns that no other export has all of. Without `columns` no lots can be made of it.

    `retired_for` is the column that says whose a retirement is, `product` the one that says what credits are planned.
    """

    registry: str
    name: str
    signs: tuple[str, ...]
    columns: Columns | None = None
    refusal: str = ""
    retired_for: str = ""
    product: str = ""
    facts: FactColumns = FactColumns()


_CANCELLED = "it lists cancellations, which are no retirements: nothing can be sold of them."
_NO_SERIALS = "it has no serial numbers. Import the retirements, or write lots.csv from your account."
_GOLD_STANDARD_FACTS = FactColumns(("Label",), ("Article Six Authorization",))
_CORSIA = ("Eligible for CORSIA 2021-2023 Compliance Period", "Eligible for CORSIA 2024-2026 Compliance Period")
_ACR_CORSIA = (f"{_CORSIA[0]} (Pilot Phase)", f"{_CORSIA[1]} (First Phase)")
KNOWN = (
    KnownExport(
        "Verra",
        "transactions",
        ("Total Vintage Quantity", "Quantity Issued", "Serial Number", "Retirement/Cancellation Date"),
        Columns("Serial Number", "ID", "Vintage Start", "Quantity Issued", "Retirement/Cancellation Date"),
        retired_for="Retirement Beneficiary",
        facts=FactColumns(("Additional Certifications",)),
    ),
    KnownExport(
        "Gold Standard",
        "retirements",
        ("GSID", "Credit Status", "Serial Number", "Retirement Date"),
        Columns("Serial Number", "GSID", "Vintage", "Quantity", "Retirement Date"),
        retired_for="Using Entity",
        product="Product Type",
        facts=_GOLD_STANDARD_FACTS,
    ),
    KnownExport(
        "Gold Standard",
        "issuances",
        ("GSID", "Credit Status", "Serial Number", "Product Type"),
        Columns("Serial Number", "GSID", "Vintage", "Quantity"),
        product="Product Type",
        facts=_GOLD_STANDARD_FACTS,
    ),
    KnownExport(
        "ACR",
        "retirements",
        ("Credit Serial Numbers", "Retired on Behalf of", "Status Effective (GMT)"),
        Columns("Credit Serial Numbers", "Project ID", "Vintage", "Quantity of Credits", "Status Effective (GMT)"),
        retired_for="Account Holder",
        facts=FactColumns(flags=("CCP Approved", "Verified Removal", *_ACR_CORSIA)),
    ),
    KnownExport("ACR", "cancellations", ("Credit Serial Numbers", "Cancellation Type"), None, _CANCELLED),
    KnownExport("ACR", "issuances", ("Total Credits Issued", "Project VVB"), None, _NO_SERIALS),
    KnownExport("CAR", "cancellations", ("Offset Credit Serial Numbers", "Cancellation Reason"), None, _CANCELLED),
    KnownExport(
        "CAR",
        "retirements",
        ("Offset Credit Serial Numbers", "Retirement Reason", "Status Effective"),
        Columns(
            "Offset Credit Serial Numbers", "Project ID", "Vintage", "Quantity of Offset Credits", "Status Effective"
        ),
        retired_for="Account Holder",
        facts=FactColumns(
            ("Additional Certification(s)",),
            ("Reduction/Removal",),
            ("CCP Approved", "Corresponding Adjustment", *_CORSIA),
        ),
    ),
    KnownExport("CAR", "issuances", ("Total Offset Credits Issued", "Verification Body"), None, _NO_SERIALS),
)


_OF_LOTS = {"registry", "registry_project_id", "serial_block", "status", "retirement_url", "retired_on", "lot_id"}


class ExportRequest(Struct, frozen=True, kw_only=True):
    """What the operator states about a file. Registry and columns only if the file is not a known export.

    `exported_on` is the day when the registry said what the file says.
    """

    exported_on: date
    retirement_url: str | None = None
    holds_issued: bool = False
    dates: ExportDates = ExportDates.ISO
    registry: str = ""
    columns: Columns | None = None


class ColumnsUnknown(SheetInvalid):
    """The file is neither lots.csv nor a known export: `header` are its columns, of which the operator may choose."""

    def __init__(self, errors: Sequence[RowError], header: tuple[str, ...]) -> None:
        super().__init__(errors)
        self.header = header


class ConvertedExport(Struct, frozen=True):
    """`file` has the lines of the export at the same numbers. What it left out is counted."""

    file: SheetFile
    name: str
    other_projects: int
    not_held: int
    planned: int = 0
    retired_for: str = ""
    unread: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """For people."""
        counts = {
            "of projects that are not in the catalogue": self.other_projects,
            "not retired, and nobody said that you hold these units": self.not_held,
            "of planned reductions, which are no credits yet": self.planned,
        }
        left_out = [f"Lines left out, {why}: {count:,}." for why, count in counts.items() if count]
        retired = [f"All retirements are those of {quoted(self.retired_for)}."] if self.retired_for else []
        unread = [f"Not read, because their meaning is not known: {', '.join(self.unread)}."] if self.unread else []
        return [f"Read as the export {self.name}.", *retired, *left_out, *unread]


def read_header(file: SheetFile) -> tuple[str, ...]:
    """Raises SheetInvalid."""
    try:
        _, cells = next(read_lines(file.content), (1, []))
    except Unreadable as error:
        raise SheetInvalid([RowError(file.name, error.line, None, str(error))]) from error
    return tuple(" ".join(cell.split()) for cell in cells)


def is_lots_file(header: Sequence[str]) -> bool:
    """Also if columns are missing or misspelt, which the import reports; and an empty one."""
    return not header or len(_OF_LOTS & {name.lower() for name in header}) > 1


def recognise(header: Sequence[str]) -> KnownExport | None:
    names = {name.lower() for name in header}
    return next((known for known in KNOWN if names >= {sign.lower() for sign in known.signs}), None)


def convert_export(file: SheetFile, request: ExportRequest, projects: Sequence[tuple[str, str]]) -> ConvertedExport:
    """`projects` are registries and project ids of the catalogue. Raises SheetInvalid, or ColumnsUnknown."""
    header = read_header(file)
    known = recognise(header)
    if known is not None and known.columns is None:
        message = f"this is the export of {known.name} of {known.registry}: {known.refusal}"
        raise SheetInvalid([RowError(file.name, 1, None, message)])
    registry = request.registry if known is None else known.registry
    columns = request.columns if known is None else known.columns
    if columns is None or not registry:
        message = "these are not the columns of lots.csv or of a known export: choose the registry and its columns."
        raise ColumnsUnknown([RowError(file.name, 1, None, message)], header)
    names = {name.lower() for name in header}
    for chosen in filter(None, msgspec.structs.astuple(columns)):
        if chosen.lower() not in names:
            raise ColumnsUnknown([RowError(file.name, 1, None, f"there is no column {quoted(chosen)}.")], header)
    of_registry = [each for each in projects if registry_id(each[0]) == registry_id(registry)]
    lines = _Lines(file.name, request, of_registry, known or KnownExport(registry, file.name, ()))
    for line, cells in list(read_lines(file.content))[1:]:
        by_name = {name.lower(): cell.strip() for name, cell in zip(header, cells, strict=False)}
        lines.convert(line, by_name, columns)
    if len(lines.retired_for) > 1:
        several = ", ".join(quoted(each or "nobody named") for each in sorted(lines.retired_for)[:_NAMES_SHOWN])
        message = (
            f"it lists retirements of {len(lines.retired_for)}, such as {several}: leave only your lines in the file."
        )
        lines.errors.append(RowError(file.name, None, None, message))
    if lines.errors:
        raise SheetInvalid(lines.errors)
    name = file.name if known is None else f"{known.name} of {known.registry}"
    done = ConvertedExport(
        SheetFile(file.name, lines.as_csv()),
        name,
        lines.other_projects,
        lines.not_held,
        lines.planned,
        "".join(lines.retired_for),
        tuple(map(quoted, sorted(lines.unread)[:_NAMES_SHOWN])),
    )
    if not lines.written:
        raise SheetInvalid([RowError(file.name, None, None, note) for note in done.notes])
    return done


_WRITTEN = (
    *("registry", "registry_project_id", "vintage", "serial", "quantity"),
    *("status", "retirement_url", "retired_on"),
)


class _Lines:
    """Converts lines, and notes what is wrong with them."""

    def __init__(
        self, file: str, request: ExportRequest, projects: Sequence[tuple[str, str]], known: KnownExport
    ) -> None:
        self._file = file
        self._known = known
        self._request = request
        # `VCS1340` is 1340 in the exports.
        self._projects = {_number(project_id): (registry, project_id) for registry, project_id in projects}
        self.errors: list[RowError] = []
        self.other_projects = self.not_held = self.planned = 0
        self.retired_for: set[str] = set()
        self.unread: set[str] = set()
        # By their lines in the export.
        self.written: dict[int, dict[str, str]] = {}

    def convert(self, line: int, by_name: Mapping[str, str], columns: Columns) -> None:
        """A missing column or cell is empty."""
        cells = {name: by_name.get((getattr(columns, name) or "").lower(), "") for name in FIELDS}
        project = self._projects.get(_number(cells["project"]))
        if project is None:
            self.other_projects += 1
            return
        if _PLANNED.search(by_name.get(self._known.product.lower(), "")):
            self.planned += 1
            return
        is_retired = bool(cells["retired_on"])
        if is_retired and self._known.retired_for:
            self.retired_for.add(by_name.get(self._known.retired_for.lower(), ""))
        if not is_retired and not self._request.holds_issued:
            self.not_held += 1
            return
        retired_on, page = "", ""
        if is_retired:
            retired_on, page = self._read_day(line, cells["retired_on"]), self._request.retirement_url or ""
            if not page:
                self._fail(line, "retirement_url", "it is retired: say which page of the registry shows it as yours.")
        years = set(_YEAR.findall(cells["vintage"]))
        if len(years) != 1:
            self._fail(line, "vintage", f"{quoted(cells['vintage'])} does not name one year: write lots.csv for it.")
        quantity = cells["quantity"].replace(",", "") if _GROUPED.fullmatch(cells["quantity"]) else cells["quantity"]
        status = "pre_retired" if is_retired else "held"
        values = (*project, "".join(years), cells["serial"], quantity, status, page, retired_on)
        facts = read_facts(self._known.facts, by_name)
        self.unread.update(facts.unread)
        source = f"{self._known.registry} registry, export of {self._known.name}"
        self.written[line] = dict(zip(_WRITTEN, values, strict=True)) | facts.cells(source, self._request.exported_on)

    def as_csv(self) -> bytes:
        """Each line is where the export has it: an error of the import then names the line of the export."""
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, (*_WRITTEN, *stated(self.written.values())), restval="")
        writer.writeheader()
        at = 1
        for line, cells in self.written.items():
            out.write("\r\n" * (line - at - 1))
            writer.writerow({name: cells.get(name, "") for name in writer.fieldnames})
            at = line
        return out.getvalue().encode()

    def _read_day(self, line: int, text: str) -> str:
        day = text.split("T", maxsplit=1)[0].split(" ", maxsplit=1)[0]
        for form in ("%Y-%m-%d", *_FORMATS.get(self._request.dates, ())):
            with suppress(ValueError):
                return datetime.strptime(day, form).date().isoformat()  # noqa: DTZ007 - a day
        self._fail(line, "retired_on", f"{quoted(text)} is not a date, or day or month may come first: say which.")
        return ""

    def _fail(self, line: int, column: str, message: str) -> None:
        self.errors.append(RowError(self._file, line, column, message))


def _number(project_id: str) -> str:
    return re.sub(r"^[A-Z]*0*(?=[0-9])", "", plain_spelling(project_id))
