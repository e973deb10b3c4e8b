"""Columns of projects.csv and bundles.csv with several values in a cell, and the rules across columns.

The items of a cell are separated by `|`, the parts of an item by `;`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

from tonne.platform.documents.sheets import columns
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import Values
from tonne.platform.values.amounts import parse_decimal
from tonne.selling.catalogue import details

MAX_ITEMS = 50
MAX_ITEM_LENGTH = 500
MAX_TONNES = 10**12
_COORDINATE = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,8})?")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_QUALITIES = tuple(
    f"quality_{name}" for name in ["durability", "additionality", "measurement", "risk_mitigation", "cobenefits"]
)
T = TypeVar("T")
_short = columns.text(MAX_ITEM_LENGTH)


def items(parse: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Items separated by `|`."""

    def parse_items(cell: str) -> list[T]:
        cells = [item.strip() for item in cell.split("|")]
        if not all(cells):
            raise columns.CellError("an item between two `|` is empty: enter it, or remove one `|`.")
        if len(cells) > MAX_ITEMS:
            raise columns.CellError(f"the cell has {len(cells)} items: keep at most {MAX_ITEMS}.")
        return [parse(item) for item in cells]

    return parse_items


def parts(item: str, *names: str, required: int) -> list[str | None]:
    """The parts of an item; None for those that are empty or missing at the end."""
    found = [part.strip() or None for part in item.split(";")]
    shape = " ; ".join(names)
    if len(found) > len(names) or not all(found[:required]) or len(found) < required:
        raise columns.CellError(f"{quoted(item)} does not have the form `{shape}`: separate the parts with `;`.")
    return [*found, *[None] * (len(names) - len(found))]


def _optional(parse: Callable[[str], T], part: str | None) -> T | None:
    return None if part is None else parse(part)


def parse_coordinate(limit: int) -> Callable[[str], float]:
    def parse(cell: str) -> float:
        if not _COORDINATE.fullmatch(cell) or not -limit <= float(cell) <= limit:
            raise columns.CellError(
                f"{quoted(cell)} is not a number of degrees from -{limit} to {limit}: write one such as 6.85."
            )
        return float(cell)

    return parse


def parse_colour(cell: str) -> str:
    if not _COLOUR.fullmatch(cell.lower()):
        raise columns.CellError(f"{quoted(cell)} is not a colour: write it as #3f8762.")
    return cell.lower()


def parse_day(cell: str) -> str:
    return columns.parse_date(cell).isoformat()


def parse_goals(cell: str) -> list[int]:
    return sorted(set(items(columns.whole(1, 17))(cell)))


def parse_tonnes(cell: str) -> str:
    return f"{columns.decimal(6, MAX_TONNES)(cell):f}"


def parse_titled(cell: str) -> details.TitledText:
    title, colon, description = (part.strip() for part in columns.text(2000)(cell).partition(":"))
    if not (title and colon and description):
        raise columns.CellError(f"{quoted(cell)} does not have the form `Title: description`.")
    return details.TitledText(title, description)


def parse_milestone(item: str) -> details.ProjectYear:
    year, colon, description = (part.strip() for part in item.partition(":"))
    if not (colon and description):
        raise columns.CellError(f"{quoted(item)} does not have the form `2024: description`.")
    return details.ProjectYear(columns.whole(1900, 2200)(year), _short(description))


def parse_media(item: str) -> details.ProjectMedia:
    kind, url, credit, link = parts(item, "image or video", "address", "credit", "address", required=2)
    return details.ProjectMedia(
        details.MediaType(columns.choice(*details.MediaType)(str(kind))),
        columns.parse_image(str(url)),
        _optional(_short, credit),
        _optional(columns.parse_web_url, link),
    )


def parse_impact(item: str) -> details.ImpactEntry:
    names = ("label", "title", "description", "address of a picture", "icon")
    label, title, description, image, icon = map(str, parts(item, *names, required=5))
    shown = (_short(label), _short(title), _short(description))
    return details.ImpactEntry(*shown, columns.parse_image(image), _short(icon))


def parse_storage(item: str) -> details.CarbonStorageYear:
    names = ("year", "baseline", "carbon stock", "assumed leakage", "buffer", "credits issued")
    year, *amounts = parts(item, *names, required=6)
    return details.CarbonStorageYear(
        columns.whole(1900, 2200)(str(year)), *(_amount(str(amount)) for amount in amounts)
    )


def _amount(cell: str) -> float:
    number = parse_decimal(cell)
    if number is None or number > MAX_TONNES:
        raise columns.CellError(f"{quoted(cell)} is not a number of tonnes: write one such as 12500.")
    return float(number)


def parse_dataset(item: str) -> details.Dataset:
    *named, url = parts(item, "name", "description", "address of a picture", "address", required=3)
    name, description, thumbnail = map(str, named)
    about = (_short(name), _short(description), columns.parse_image(thumbnail))
    return details.Dataset(*about, _optional(columns.parse_web_url, url))


def parse_rating(item: str) -> details.Rating:
    agency, grade, day, url = map(str, parts(item, "agency", "grade", "date", "address", required=4))
    return details.Rating(_short(agency), _short(grade), parse_day(day), columns.parse_web_url(url))


def parse_link(item: str) -> details.ProjectLink:
    title, url, icon = map(str, parts(item, "title", "address", "address of an icon", required=3))
    return details.ProjectLink(_short(title), columns.parse_web_url(url), columns.parse_image(icon))


def parse_news(item: str) -> details.NewsArticle:
    title, url, day, description = parts(item, "title", "address", "date", "description", required=2)
    about = (_optional(parse_day, day), _optional(_short, description))
    return details.NewsArticle(_short(str(title)), columns.parse_web_url(str(url)), *about)


Texts = Annotated[list[str], columns.Column(items(_short))]
ShortText = Annotated[str, columns.Column(_short)]
Day = Annotated[str, columns.Column(parse_day)]
Titled = Annotated[details.TitledText, columns.Column(parse_titled)]


def check_details(values: Values) -> Iterator[tuple[str, str]]:
    """Columns of projects.csv that only make sense together."""
    for one, other in (("latitude", "longitude"), ("longitude", "latitude")):
        if _is_empty(values, one) and not _is_empty(values, other) and one in values:
            yield one, f"the cell is empty, but {other} is not: enter both or neither."
    start, end = values.get("crediting_start_date"), values.get("crediting_end_date")
    if start and end and end < start:
        yield "crediting_end_date", f"{end} is before crediting_start_date: correct one of the two."
    if any(not _is_empty(values, name) for name in _QUALITIES):
        for name in _QUALITIES:
            if name in values and _is_empty(values, name):
                yield name, "the cell is empty, but other quality columns are not: fill all five or none."


def _is_empty(values: Values, name: str) -> bool:
    value: Any = values.get(name)
    return value is None
