"""The figures of the overview: sums of the year, progress towards the target, and the charts."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from fractions import Fraction

from babel import Locale
from msgspec import Struct

from tonne.apps.workspace.attention_store import RetiredShares
from tonne.platform.web import visitor
from tonne.platform.web.charts import ColumnChart, column_chart
from tonne.selling.accounts.set_target import YearlyTarget
from tonne.selling.orders.totals.totals import BOUGHT, OPEN, OrderTotal

MONTHS = 12


class TargetProgress(Struct, frozen=True):
    """`part` is in per cent of the target, not limited to 100; `width` is. `is_tiny`: above zero, and shown as 0."""

    part: int
    width: float
    is_tiny: bool = False


class Spend(Struct, frozen=True):
    currency: str
    minor: int
    # Only in the currency of the budget.
    progress: TargetProgress | None


class MonthlySeries(Struct, frozen=True):
    """Values by month. `currency` is None for a mass."""

    currency: str | None
    months: tuple[tuple[str, int], ...]
    chart: ColumnChart

    @property
    def total(self) -> int:
        return sum(value for _, value in self.months)


class OverviewFigures(Struct, frozen=True):
    grams: int
    progress: TargetProgress | None
    spend: tuple[Spend, ...]
    open_orders: int
    open_grams: int
    tonnes: MonthlySeries
    spending: tuple[MonthlySeries, ...]

    @property
    def has_months(self) -> bool:
        return any(series.total for series in (self.tonnes, *self.spending))


def first_month(today: date) -> date:
    """The first month that the overview shows."""
    return _months_before(today, MONTHS - 1)


def figures_of(totals: Sequence[OrderTotal], target: YearlyTarget, locale: Locale, today: date) -> OverviewFigures:
    """`totals` are those since `first_month`, and of open orders since ever."""
    bought = [total for total in totals if total.status in BOUGHT]
    this_year = [total for total in bought if total.month.year == today.year]
    grams = sum(total.grams for total in this_year)
    spent: defaultdict[str, int] = defaultdict(int)
    if target.budget_currency is not None:
        spent[target.budget_currency] = 0
    for total in this_year:
        spent[total.currency] += total.spend_minor
    waiting = [total for total in totals if total.status in OPEN]
    days = [_months_before(today, back) for back in range(MONTHS - 1, -1, -1)]
    by_currency: defaultdict[str, dict[date, int]] = defaultdict(dict)
    mass: defaultdict[date, int] = defaultdict(int)
    for total in bought:
        if total.month >= days[0]:
            mass[total.month] += total.grams
            of_currency = by_currency[total.currency]
            of_currency[total.month] = of_currency.get(total.month, 0) + total.spend_minor
    return OverviewFigures(
        grams=grams,
        progress=_progress(grams, target.target_grams),
        spend=tuple(_spend(currency, minor, target) for currency, minor in sorted(spent.items(), key=_largest_first)),
        open_orders=sum(total.orders for total in waiting),
        open_grams=sum(total.grams for total in waiting),
        tonnes=_series(None, mass, days, locale),
        spending=tuple(_series(currency, values, days, locale) for currency, values in sorted(by_currency.items())),
    )


def _largest_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _spend(currency: str, minor: int, target: YearlyTarget) -> Spend:
    budget = target.budget_minor if currency == target.budget_currency else None
    return Spend(currency, minor, _progress(minor, budget))


def _progress(value: int, target: int | None) -> TargetProgress | None:
    if target is None:
        return None
    part = max(0, round(Fraction(100 * value, target)))
    return TargetProgress(part, float(min(100, part)), is_tiny=value > 0 and not part)


def _series(currency: str | None, values: dict[date, int], days: Sequence[date], locale: Locale) -> MonthlySeries:
    months = tuple((visitor.month(day, locale), values.get(day, 0)) for day in days)
    # A month with more refunds than orders has no column.
    chart = column_chart([max(0, value) for _, value in months], [name for name, _ in months])
    return MonthlySeries(currency, months, chart)


def _months_before(day: date, count: int) -> date:
    index = day.year * 12 + day.month - 1 - count
    return date(index // 12, index % 12 + 1, 1)


class RemovalShare(Struct, frozen=True):
    """In per cent of what was retired."""

    removal: int
    avoidance: int


def removal_share(shares: RetiredShares) -> RemovalShare | None:
    """None before anything was retired."""
    if not shares.grams:
        return None
    removal = round(Fraction(100 * shares.removal_grams, shares.grams))
    avoidance = 100 - removal if shares.removal_grams + shares.avoidance_grams == shares.grams else None
    if avoidance is None:
        avoidance = round(Fraction(100 * shares.avoidance_grams, shares.grams))
    return RemovalShare(removal, avoidance)
