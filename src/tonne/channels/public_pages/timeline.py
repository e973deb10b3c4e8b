"""What was retired in each month, as a chart."""

from collections import defaultdict
from datetime import date
from itertools import accumulate

from babel import Locale
from msgspec import Struct

from tonne.platform.web import visitor
from tonne.platform.web.charts import ColumnChart, LineChart, MonthAxis, bar_width, column_chart, line_chart, month_axis

LONGEST = 24
# A chart with fewer columns is mostly empty. So few months are shown as lines with a bar.
FEWEST_COLUMNS = 4


class Month(Struct, frozen=True):
    """`total_grams` is what was retired up to the end of the month. `width` is a percentage of the highest month."""

    first_day: date
    name: str
    grams: int
    total_grams: int
    width: float


class MonthCharts(Struct, frozen=True):
    columns: ColumnChart
    line: LineChart
    axis: MonthAxis
    # The texts of columns, of the dots of the line, and of the grid lines of both.
    column_tips: tuple[str, ...]
    line_tips: tuple[str, ...]
    column_ticks: tuple[str, ...]
    line_ticks: tuple[str, ...]


class Timeline(Struct, frozen=True):
    """The latest months, and the earlier totals by year. `charts` is None if there are too few months."""

    months: tuple[Month, ...]
    charts: MonthCharts | None
    best: Month
    older_years: tuple[tuple[int, int], ...]

    @property
    def older_grams(self) -> int:
        return sum(grams for _, grams in self.older_years)


def timeline_of(grams: dict[date, int], locale: Locale, this_month: date, year: int | None) -> Timeline:
    """From the first month with retirements, at most two years, up to this month or to the end of `year`."""
    last = max(this_month, *grams) if year is None else min(date(year, 12, 1), max(this_month, *grams))
    first = max(min(grams), _months_before(last, LONGEST - 1))
    years: defaultdict[int, int] = defaultdict(int)
    for day in sorted(grams, reverse=True):
        if day < first:
            years[day.year] += grams[day]
    span = (last.year - first.year) * 12 + last.month - first.month
    days = [_months_before(last, back) for back in range(span, -1, -1)]
    totals = list(accumulate([grams.get(day, 0) for day in days], initial=sum(years.values())))[1:]
    highest = max(grams.get(day, 0) for day in days)
    months = tuple(
        Month(day, visitor.month(day, locale), grams.get(day, 0), total, bar_width(grams.get(day, 0), highest))
        for day, total in zip(days, totals, strict=True)
    )
    return Timeline(
        months=months,
        charts=_charts(months, locale) if len(months) >= FEWEST_COLUMNS else None,
        best=max(months, key=lambda month: month.grams),
        older_years=tuple(years.items()),
    )


def _charts(months: tuple[Month, ...], locale: Locale) -> MonthCharts:
    columns = column_chart([month.grams for month in months], [""] * len(months))
    line = line_chart([month.total_grams for month in months])
    days = [month.first_day for month in months]
    return MonthCharts(
        columns=columns,
        line=line,
        axis=month_axis(days, [visitor.month_name(day, locale) for day in days]),
        column_tips=tuple(f"{month.name}: {visitor.exact(month.grams, locale)}" for month in months),
        line_tips=tuple(f"{month.name}: {visitor.exact(month.total_grams, locale)}" for month in months),
        column_ticks=tuple(visitor.rounded(each.value, locale) for each in columns.gridlines),
        line_ticks=tuple(visitor.rounded(each.value, locale) for each in line.gridlines),
    )


def _months_before(month: date, count: int) -> date:
    index = month.year * 12 + month.month - 1 - count
    return date(index // 12, index % 12 + 1, 1)
