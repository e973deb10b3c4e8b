"""Chart geometry: turns numbers into coordinates for the templates.

Horizontal coordinates are percentages of the chart's width, vertical ones are pixels. So bars stretch with the screen
while text keeps its size.
"""

import unicodedata
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

# Width of a chart on a screen of 360 pixels, and from the breakpoint (52 rem) where the style sheet shows more labels.
NARROWEST, WIDE = 288, 700
TOP, BASE, HEIGHT = 24, 204, 230
# Minimum size of a bar whose value is not zero.
MIN_HEIGHT, MIN_SHARE = 2.0, 0.8
_BAR_PART = 0.72
_LETTER, _WIDE_LETTER, _BETWEEN_LABELS = 7.6, 13.5, 8.0
_ROUND = (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100)
_STEPS = (1, 2, 3, 4, 6, 12, 24)


class ChartColumn(Struct, frozen=True):
    """`x` and `width` are percentages, `y` and `height` pixels."""

    x: float
    y: float
    width: float
    height: float


class Gridline(Struct, frozen=True):
    y: float
    value: int


class Label(Struct, frozen=True):
    """Starts at `x` per cent. `is_wide`: shown only on wide screens."""

    x: float
    text: str
    is_wide: bool


class ColumnChart(Struct, frozen=True):
    columns: tuple[ChartColumn, ...]
    gridlines: tuple[Gridline, ...]
    labels: tuple[Label, ...]


class Dot(Struct, frozen=True):
    """A point of a line: `x` is a percentage, `y` pixels."""

    x: float
    y: float


class LineChart(Struct, frozen=True):
    """`area` is a closed path below the line, in a coordinate system of 100 by `HEIGHT`."""

    dots: tuple[Dot, ...]
    line: str
    area: str
    gridlines: tuple[Gridline, ...]


class MonthAxis(Struct, frozen=True):
    """Labels for columns that are months: names of months, and the years in a row below them."""

    months: tuple[Label, ...]
    years: tuple[Label, ...]


class Segment(Struct, frozen=True):
    """Both are percentages."""

    x: float
    width: float


def column_chart(values: Sequence[int], labels: Sequence[str]) -> ColumnChart:
    """One column per value, with as many labels as fit without overlapping."""
    ceiling = nice_ceiling(max(values, default=0))
    slot = 100 / max(len(values), 1)
    columns = []
    for place, value in enumerate(values):
        height = (BASE - TOP) * value / ceiling
        height = max(height, MIN_HEIGHT) if value else 0.0
        columns.append(ChartColumn(_place(slot, place), BASE - height, slot * _BAR_PART, height))
    middle = (TOP + BASE) / 2
    return ColumnChart(
        columns=tuple(columns),
        gridlines=(Gridline(TOP, ceiling), Gridline(middle, ceiling // 2)),
        labels=tuple(_labels(labels, slot)),
    )


def _labels(texts: Sequence[str], slot: float) -> list[Label]:
    narrow = _step(texts, slot, NARROWEST)
    wide = next((step for step in _STEPS if step >= _step(texts, slot, WIDE) and narrow % step == 0), narrow)
    labels = []
    for place in range(0, len(texts), wide):
        is_wide = place % narrow != 0 or not _fits(texts[place], _place(slot, place), NARROWEST)
        if place == 0 or _fits(texts[place], _place(slot, place), WIDE if is_wide else NARROWEST):
            labels.append(Label(_place(slot, place), texts[place], is_wide and place > 0))
    return labels


def _step(texts: Sequence[str], slot: float, width: int) -> int:
    """Show every n-th label, so that none overlaps the next. Returns n."""
    widest = max(map(text_width, texts), default=0.0) + _BETWEEN_LABELS
    return next((step for step in _STEPS if step * slot * width / 100 >= widest), max(len(texts), 1))


def _fits(text: str, x: float, width: int) -> bool:
    return width * x / 100 + text_width(text) <= width


def _place(slot: float, place: int) -> float:
    return slot * (place + (1 - _BAR_PART) / 2)


def line_chart(values: Sequence[int]) -> LineChart:
    """A line through the middles of the columns that `column_chart` has for as many values."""
    ceiling, slot = nice_ceiling(max(values, default=0)), 100 / max(len(values), 1)
    dots = [Dot(slot * (place + 0.5), BASE - (BASE - TOP) * value / ceiling) for place, value in enumerate(values)]
    points = " L".join(f"{dot.x:.2f} {dot.y:.1f}" for dot in dots)
    area = f"M{dots[0].x:.2f} {BASE} L{points} L{dots[-1].x:.2f} {BASE}Z" if dots else ""
    gridlines = (Gridline(TOP, ceiling), Gridline((TOP + BASE) / 2, ceiling // 2))
    return LineChart(tuple(dots), f"M{points}" if dots else "", area, gridlines)


def month_axis(days: Sequence[date], names: Sequence[str]) -> MonthAxis:
    """As many names as fit on a phone. A year is below its first month, unless the next year is too close."""
    slot = 100 / max(len(days), 1)
    step = _step(names, slot, NARROWEST)
    months = [
        Label(_place(slot, place), names[place], is_wide=False)
        for place in range(0, len(days), step)
        if place == 0 or _fits(names[place], _place(slot, place), NARROWEST)
    ]
    starts = [place for place, day in enumerate(days) if place == 0 or day.month == 1]
    years = []
    for place, following in zip(starts, [*starts[1:], len(days)], strict=True):
        text = str(days[place].year)
        space = (following - place) * slot * NARROWEST / 100
        is_last = following == len(days)
        if space >= text_width(text) + _BETWEEN_LABELS or (is_last and _fits(text, _place(slot, place), NARROWEST)):
            years.append(Label(_place(slot, place), text, is_wide=False))
    return MonthAxis(tuple(months), tuple(years))


def nice_ceiling(value: int) -> int:
    """The next round number at or above `value`. Half of it is a whole number, for the middle grid line."""
    power = 1
    while True:
        for digits in _ROUND:
            if digits * power >= value:
                return digits * power
        power *= 10


def stacked_bar(values: Sequence[int]) -> list[Segment]:
    """Segments that fill the whole width. Very small ones are widened so that they stay visible."""
    total = sum(values)
    shares = [max(100 * value / total, MIN_SHARE) for value in values] if total else []
    stretch = 100 / sum(shares) if shares else 1.0
    segments, x = [], 0.0
    for share in shares:
        segments.append(Segment(x, share * stretch))
        x += share * stretch
    return segments


def bar_width(value: int, largest: int) -> float:
    """A percentage of the largest bar."""
    return max(100 * value / largest, MIN_SHARE) if value else 0.0


def text_width(text: str) -> float:
    """Estimated width of a label in pixels, rather too wide than too narrow."""
    return sum(_WIDE_LETTER if unicodedata.east_asian_width(letter) in {"W", "F"} else _LETTER for letter in text)


# Widths of the columns of a nested chart, as parts of their place.
_NESTED_PARTS = (0.84, 0.54, 0.26)


class NestedChart(Struct, frozen=True):
    """Up to three columns at each place, one in front of the other. `places` are as high as the chart."""

    places: tuple[ChartColumn, ...]
    series: tuple[tuple[ChartColumn, ...], ...]
    gridlines: tuple[Gridline, ...]
    labels: tuple[Label, ...]


def nested_chart(series: Sequence[Sequence[int]], labels: Sequence[str]) -> NestedChart:
    """For steps of a funnel: each series is drawn narrower than the one before it, so that all of them are visible."""
    ceiling = nice_ceiling(max((max(values, default=0) for values in series), default=0))
    slot = 100 / max(len(labels), 1)
    drawn = []
    for values, part in zip(series, _NESTED_PARTS, strict=False):
        heights = [max((BASE - TOP) * value / ceiling, MIN_HEIGHT) if value else 0.0 for value in values]
        drawn.append(
            tuple(
                ChartColumn(slot * (place + (1 - part) / 2), BASE - height, slot * part, height)
                for place, height in enumerate(heights)
            )
        )
    return NestedChart(
        places=tuple(ChartColumn(slot * place, TOP, slot, BASE - TOP) for place in range(len(labels))),
        series=tuple(drawn),
        gridlines=(Gridline(TOP, ceiling), Gridline((TOP + BASE) / 2, ceiling // 2)),
        labels=tuple(_labels(labels, slot)),
    )
