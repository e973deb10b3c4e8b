"""The rows of a catalogue's files, and the rule for each."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

from tonne.base.currency import DECIMALS
from tonne.base.decimals import scaled, spell
from tonne.base.mass import GRAMS_PER_TONNE
from tonne.catalog.csv_cells import LABEL_LENGTH, Cells

ProjectKey = tuple[str, str]
SerialBlock = tuple[str, str]
LotKey = tuple[str, str, int, int]

MAX_SERIAL_NUMBER = 10**15 - 1
MAX_LOT_TONNES = 10**9
MAX_PRICE = 10**9
MAX_RATE = 10**12 - 1
MAX_WEIGHT = 1_000_000
# Somewhere it is tomorrow already.
_AHEAD = timedelta(hours=14)


@dataclass(frozen=True, slots=True)
class Context:
    """What a row is judged by besides itself: the catalogue's currency and the time."""

    currency: str
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow:
    # Rows are compared with what is stored: where they stood in the file does not count.
    line: int = field(compare=False, default=0)
    registry: str
    registry_project_id: str
    name: str
    # None until the import has found a free one.
    slug: str | None
    country: str
    type: str
    methodology: str | None
    mechanism: str
    granularity_grams: int
    description: str | None
    image: str | None
    registry_url: str | None

    @property
    def key(self) -> ProjectKey:
        return (self.registry, self.registry_project_id)


def judge_project(cells: Cells, _context: Context) -> ProjectRow:
    row = ProjectRow(
        line=cells.line,
        registry=cells.text("registry", LABEL_LENGTH),
        registry_project_id=cells.text("registry_project_id", LABEL_LENGTH),
        name=cells.text("name", 300),
        slug=cells.optional_slug("slug"),
        country=cells.text("country", LABEL_LENGTH),
        type=cells.text("type", LABEL_LENGTH),
        methodology=cells.optional_text("methodology", LABEL_LENGTH),
        mechanism=cells.choice("mechanism", ("avoidance", "removal")),
        granularity_grams=cells.whole("granularity_grams", 1, GRAMS_PER_TONNE),
        description=cells.optional_text("description", 2000),
        image=cells.optional_url("image", or_path=True),
        registry_url=cells.optional_url("registry_url"),
    )
    if GRAMS_PER_TONNE % row.granularity_grams:
        # Lots are whole tonnes: a unit that does not divide them would leave a rest that can never be retired.
        cells.note(
            "granularity_grams", "the grams do not divide a tonne evenly: write 1000000 for 1 t or 1000 for 1 kg."
        )
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRow:
    line: int = field(compare=False, default=0)
    slug: str
    name: str
    description: str
    primary_image: str | None
    unit_price_minor: int
    enabled: bool
    position: int

    @property
    def key(self) -> str:
        return self.slug


def judge_bundle(cells: Cells, context: Context) -> BundleRow:
    decimals = DECIMALS[context.currency]
    return BundleRow(
        line=cells.line,
        slug=cells.slug("slug"),
        name=cells.text("name", 200),
        description=cells.optional_text("description", 2000) or "",
        primary_image=cells.optional_url("primary_image", or_path=True),
        unit_price_minor=scaled(cells.decimal("unit_price", decimals, MAX_PRICE), decimals) or 1,
        enabled=cells.choice("enabled", ("true", "false")) == "true",
        position=cells.whole("position", 0, 1_000_000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleProjectRow:
    line: int = field(compare=False, default=0)
    bundle_slug: str
    registry: str
    registry_project_id: str
    weight: int
    # Its place within the bundle: the order of the lines.
    position: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.bundle_slug, self.registry, self.registry_project_id)

    @property
    def project_key(self) -> ProjectKey:
        return (self.registry, self.registry_project_id)


def judge_bundle_project(cells: Cells, _context: Context) -> BundleProjectRow:
    return BundleProjectRow(
        line=cells.line,
        bundle_slug=cells.slug("bundle_slug"),
        registry=cells.text("registry", LABEL_LENGTH),
        registry_project_id=cells.text("registry_project_id", LABEL_LENGTH),
        weight=cells.whole("weight", 1, MAX_WEIGHT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRateRow:
    line: int = field(compare=False, default=0)
    base: str
    quote: str
    rate: Decimal
    source: str
    as_of: datetime

    @property
    def key(self) -> tuple[str, str, datetime]:
        return (self.base, self.quote, self.as_of)


def judge_exchange_rate(cells: Cells, _context: Context) -> ExchangeRateRow:
    row = ExchangeRateRow(
        line=cells.line,
        base=cells.currency("base"),
        quote=cells.currency("quote"),
        rate=cells.decimal("rate", 12, MAX_RATE),
        source=cells.text("source", 200),
        as_of=cells.moment("as_of"),
    )
    if row.base and row.base == row.quote:
        cells.note("quote", "a currency has no rate to itself: name another one or delete the line.")
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class LotRow:
    line: int = field(compare=False, default=0)
    registry: str
    registry_project_id: str
    vintage: int
    serial_block: str
    first_number: int
    last_number: int
    status: str
    retirement_url: str | None
    retired_on: date | None
    # None until the import has looked up the project's.
    country: str | None
    methodology: str | None

    @property
    def key(self) -> LotKey:
        return (self.registry, self.serial_block, self.first_number, self.last_number)

    @property
    def block_key(self) -> SerialBlock:
        return (self.registry, self.serial_block)

    @property
    def project_key(self) -> ProjectKey:
        return (self.registry, self.registry_project_id)


def judge_lot(cells: Cells, context: Context) -> LotRow:
    row = LotRow(
        line=cells.line,
        registry=cells.text("registry", LABEL_LENGTH),
        registry_project_id=cells.text("registry_project_id", LABEL_LENGTH),
        vintage=cells.whole("vintage", 1990, 2100),
        serial_block=cells.text("serial_block", 200),
        first_number=cells.whole("first_number", 0, MAX_SERIAL_NUMBER),
        last_number=cells.whole("last_number", 0, MAX_SERIAL_NUMBER),
        status=cells.choice("status", ("held", "pre_retired")),
        retirement_url=cells.optional_url("retirement_url"),
        retired_on=cells.optional_date("retired_on"),
        country=cells.optional_text("country", LABEL_LENGTH),
        methodology=cells.optional_text("methodology", LABEL_LENGTH),
    )
    if cells.is_sound(("first_number", "last_number")):
        if row.last_number < row.first_number:
            cells.note("last_number", "it is below first_number: swap or mend the two.")
        elif row.last_number - row.first_number >= MAX_LOT_TONNES:
            cells.note("last_number", f"the lot holds more than {MAX_LOT_TONNES:,} t: split it into smaller lots.")
    _judge_retirement(cells, row, context)
    return row


def _judge_retirement(cells: Cells, row: LotRow, context: Context) -> None:
    facts = (("retirement_url", row.retirement_url), ("retired_on", row.retired_on))
    for column, value in facts:
        if row.status == "pre_retired" and value is None and cells.is_sound((column,)):
            cells.note(column, "a pre_retired lot needs it: give where and when it was retired, or write held.")
        if row.status == "held" and value is not None:
            cells.note(column, "a held lot is not retired yet: leave the cell empty, or write pre_retired.")
    if row.retired_on is not None and cells.is_sound(("retired_on", "vintage")):
        if row.retired_on > (context.now + _AHEAD).date():
            cells.note("retired_on", "the date lies in the future: give the day on which it was retired.")
        if row.retired_on.year < row.vintage:
            cells.note("retired_on", f"the date lies before the vintage {row.vintage}: mend one of the two.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow:
    line: int = field(compare=False, default=0)
    bundle_slug: str
    # Plain, without trailing zeros; None for an equal split.
    percentage: str | None
    position: int = 0

    @property
    def key(self) -> str:
        return self.bundle_slug


def judge_default(cells: Cells, _context: Context) -> DefaultRow:
    percentage = cells.optional_decimal("percentage", 2, 100)
    hundredths = None if percentage is None else scaled(percentage, 2)
    return DefaultRow(
        line=cells.line,
        bundle_slug=cells.slug("bundle_slug"),
        percentage=None if hundredths is None else spell(hundredths, 2).rstrip("0").rstrip("."),
    )
