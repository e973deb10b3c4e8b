"""The figures of offset links: opened, begun and paid by day or month, with the chart."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from babel import Locale
from babel.dates import format_date
from babel.numbers import format_percent
from msgspec import Struct

from tonne.channels.checkout.link_counts.count_store import LinkTotals
from tonne.platform.http.route import Request
from tonne.platform.web import visitor
from tonne.platform.web.charts import NestedChart, nested_chart

DAYS = 30
MONTHS = 12
# From this rate on, decimals say nothing.
_WHOLE_PER_CENT = 10


class ShownPeriod(StrEnum):
    DAYS = "30d"
    MONTHS = "12m"

    @property
    def label(self) -> str:
        return "30 days" if self is ShownPeriod.DAYS else "12 months"

    def first_day(self, today: date) -> date:
        if self is ShownPeriod.DAYS:
            return today - timedelta(days=DAYS - 1)
        index = today.year * 12 + today.month - MONTHS
        return date(index // 12, index % 12 + 1, 1)


class LinkStep(Struct, frozen=True):
    """A day or a month."""

    name: str
    totals: LinkTotals


class LinkFigures(Struct, frozen=True):
    """A rate is None if there is none: nothing was opened, or something was paid that was opened before the period."""

    period: ShownPeriod
    steps: tuple[LinkStep, ...]
    totals: LinkTotals
    chart: NestedChart
    begun_rate: str | None
    paid_rate: str | None

    @property
    def is_empty(self) -> bool:
        return not any(self.totals)


def read_period(request: Request) -> ShownPeriod:
    (text,) = request.query("period")
    return ShownPeriod.MONTHS if text == ShownPeriod.MONTHS else ShownPeriod.DAYS


def figures_of(days: Mapping[date, LinkTotals], period: ShownPeriod, today: date, request: Request) -> LinkFigures:
    """`days` are those from the first day of the period on, without those on which nothing was counted."""
    locale = visitor.locale_of(request.headers.get(b"accept-language", b"").decode("latin-1"))
    sums = dict.fromkeys(_starts(period, today), LinkTotals())
    for day, counted in days.items():
        start = day if period is ShownPeriod.DAYS else day.replace(day=1)
        sums[start] = sums[start].plus(counted)
    steps = tuple(LinkStep(_name(start, period, locale), totals) for start, totals in sums.items())
    total = LinkTotals()
    for totals in sums.values():
        total = total.plus(totals)
    series = [[totals[place] for totals in sums.values()] for place in range(3)]
    return LinkFigures(
        period=period,
        steps=steps,
        totals=total,
        chart=nested_chart(series, [step.name for step in steps]),
        begun_rate=rate(total.begun, total.opened, locale),
        paid_rate=rate(total.paid, total.opened, locale),
    )


def rate(part: int, whole: int, locale: Locale) -> str | None:
    """In per cent, with one decimal below 10 %."""
    if not whole or part > whole:
        return None
    decimals = 0 if part * 100 >= whole * _WHOLE_PER_CENT else 1
    rounded = Decimal(round(Fraction(part * 100 * 10**decimals, whole))).scaleb(-decimals - 2)
    return format_percent(rounded, locale=locale, decimal_quantization=False)


def _starts(period: ShownPeriod, today: date) -> list[date]:
    day, found = period.first_day(today), []
    while day <= today:
        found.append(day)
        day = day + timedelta(days=1) if period is ShownPeriod.DAYS else (day + timedelta(days=31)).replace(day=1)
    return found


def _name(start: date, period: ShownPeriod, locale: Locale) -> str:
    return (
        format_date(start, format="d MMM", locale=locale)
        if period is ShownPeriod.DAYS
        else visitor.month(start, locale)
    )
