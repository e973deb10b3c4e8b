"""The files of a catalogue and their rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar

from msgspec import Struct

from tonne.platform.documents.sheets import columns
from tonne.platform.documents.sheets.columns import RowError
from tonne.platform.documents.sheets.read_sheet import Row, Sheet, SheetFile, Values, read_sheet
from tonne.platform.values.amounts import DECIMALS, scaled
from tonne.selling.catalogue.details import Approach, CarbonPermanence
from tonne.selling.catalogue.imports.detail_columns import check_details, parse_colour
from tonne.selling.catalogue.imports.project_rows import ProjectReference, ProjectRow
from tonne.selling.catalogue.selection import DIGITS, percent_text

MAX_PRICE = 10**9
MAX_RATE = 10**12 - 1
MAX_POSITION = 1_000_000
MAX_WEIGHT = 1_000_000


class FileKind(StrEnum):
    """A file is recognised by its name. Lots belong to `retirements`, which imports them with the other files."""

    PROJECTS = "projects.csv"
    BUNDLES = "bundles.csv"
    BUNDLE_PROJECTS = "bundle_projects.csv"
    EXCHANGE_RATES = "exchange_rates.csv"
    LOTS = "lots.csv"
    DEFAULTS = "defaults.csv"


Files = Mapping[FileKind, SheetFile]


def _percentage(cell: str) -> str:
    """As it is stored: without trailing zeros."""
    return percent_text(scaled(columns.decimal(DIGITS, 100)(cell), DIGITS) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("slug",)

    slug: columns.Slug
    name: Annotated[str, columns.Column(columns.text(200))]
    description: Annotated[str, columns.Column(columns.text(2000), if_empty=None)]
    primary_image: columns.Image | None
    unit_price: Annotated[Decimal, columns.Column(columns.decimal(12, MAX_PRICE))]
    enabled: Annotated[bool, columns.Column(columns.parse_flag)]
    position: Annotated[int, columns.Column(columns.whole(0, MAX_POSITION))]
    # The fields of BundleDetails.
    approach: Annotated[str, columns.Column(columns.choice(*Approach))] | None = None
    carbon_permanence: Annotated[str, columns.Column(columns.choice(*CarbonPermanence))] | None = None
    background_colour: Annotated[str, columns.Column(parse_colour)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleProjectRow(ProjectReference):
    KEY: ClassVar[tuple[str, ...]] = ("bundle_slug", "registry", "registry_project_id")

    bundle_slug: columns.Slug
    weight: Annotated[int, columns.Column(columns.whole(1, MAX_WEIGHT))]
    # Within the bundle, from the order of the lines.
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRateRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("base", "quote", "as_of")

    base: columns.Currency
    quote: columns.Currency
    rate: Annotated[Decimal, columns.Column(columns.decimal(12, MAX_RATE))]
    source: Annotated[str, columns.Column(columns.text(200))]
    as_of: Annotated[datetime, columns.Column(columns.parse_time)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("bundle_slug",)

    bundle_slug: columns.Slug
    # None splits equally.
    percentage: Annotated[str, columns.Column(_percentage)] | None
    # From the order of the lines.
    position: int = 0


class Sheets(Struct, frozen=True):
    """All files of one import except lots."""

    projects: Sheet[ProjectRow]
    bundles: Sheet[BundleRow]
    bundle_projects: Sheet[BundleProjectRow]
    exchange_rates: Sheet[ExchangeRateRow]
    defaults: Sheet[DefaultRow]

    @property
    def errors(self) -> list[RowError]:
        sheets = (self.projects, self.bundles, self.bundle_projects, self.exchange_rates, self.defaults)
        return [error for sheet in sheets for error in sheet.errors]


def read_files(files: Files, currency: str) -> Sheets:
    return Sheets(
        projects=read_sheet(files.get(FileKind.PROJECTS), ProjectRow, check_details),
        bundles=read_sheet(files.get(FileKind.BUNDLES), BundleRow, partial(_check_price, currency)),
        bundle_projects=read_sheet(files.get(FileKind.BUNDLE_PROJECTS), BundleProjectRow),
        exchange_rates=read_sheet(files.get(FileKind.EXCHANGE_RATES), ExchangeRateRow, _check_pair),
        defaults=read_sheet(files.get(FileKind.DEFAULTS), DefaultRow),
    )


def _check_price(currency: str, values: Values) -> Iterator[tuple[str, str]]:
    if "unit_price" in values and (message := columns.precision_error(values["unit_price"], DECIMALS[currency])):
        yield "unit_price", message


def _check_pair(values: Values) -> Iterator[tuple[str, str]]:
    if "base" in values and values["base"] == values.get("quote"):
        yield "quote", "a currency has no rate to itself: name another currency or delete the line."
