"""The first page of an organisation: the year against its target, what needs attention, spend and tonnes per month."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction

from babel import Locale
from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace import attention_store as store
from tonne.apps.workspace.attention_store import RetiredShares, list_attention, menu_path
from tonne.platform.http.route import Request, Response
from tonne.platform.values import amounts
from tonne.platform.web import visitor
from tonne.platform.web.charts import ColumnChart, column_chart
from tonne.platform.web.render import see_other
from tonne.platform.web.visitor import locale_of
from tonne.selling.accounts.set_target import YearlyTarget, find_target, set_target
from tonne.selling.orders.totals.totals import BOUGHT, OPEN, OrderTotal, list_totals
from tonne.selling.users.model import Right

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


_MAX_BUDGET_DIGITS = 15
_TONNE_DECIMALS = 6
# Digits between two thousands separators.
_THOUSANDS = 3


class OverviewPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/overview": (self.show, Right.VIEW), "/overview/target": (self.show_target, Right.MONEY)},
            forms={"/overview/target": (self.change_target, Right.MONEY)},
        )

    async def show(self, viewer: MemberViewer) -> Response:
        now, locale = self.clock(), _locale(viewer.request)
        tenant, today = viewer.tenant, now.date()
        async with self.database.connection() as connection:
            totals = await list_totals(connection, tenant, first_month(today))
            target = await find_target(connection, tenant)
            shares = await store.sum_retired_shares(connection, tenant, today.replace(month=1, day=1))
            invoices = await store.list_next_invoices(connection, tenant)
            attention = await list_attention(connection, tenant, now=now, locale=locale, shown_url=viewer.shown_url)
        figures = figures_of(totals, target, locale, today)
        return self.layout.page(
            viewer,
            "overview.html",
            year=today.year,
            is_new=not totals,
            figures=figures,
            target=target,
            shares=shares,
            share=removal_share(shares),
            invoices=invoices,
            attention=attention,
            paths={name: menu_path(name) for name in ("buy", "orders", "invoices", "keys", "webhooks")},
        )

    async def show_target(self, viewer: MemberViewer) -> Response:
        target = await self.database.run(find_target, viewer.tenant)
        grams, minor, currency = target.target_grams, target.budget_minor, target.budget_currency
        fields = {
            "tonnes": [] if grams is None else [amounts.format_tonnes(grams)],
            "budget": [] if minor is None or currency is None else [amounts.format_money(minor, currency)],
            "currency": [] if currency is None else [currency],
        }
        return await self._target_page(viewer, Form(fields))

    async def change_target(self, viewer: MemberViewer, form: Form) -> Response:
        known = await self.database.run(store.list_account_currencies, viewer.tenant)
        target = _read_target(form, known)
        if form.faults:
            return await self._target_page(viewer, form)
        async with self.database.transaction() as tx:
            await set_target(tx, viewer.tenant, target, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/overview?done=target")

    async def _target_page(self, viewer: MemberViewer, form: Form) -> Response:
        known = await self.database.run(store.list_account_currencies, viewer.tenant)
        return self.layout.page(
            viewer,
            "overview_target.html",
            form,
            tonnes=form.value("tonnes"),
            budget=form.value("budget"),
            chosen=form.value("currency"),
            currencies=known,
        )


def _locale(request: Request) -> Locale:
    return locale_of(request.headers.get(b"accept-language", b"").decode("latin-1"))


def _read_target(form: Form, currencies: list[str]) -> YearlyTarget:
    """Empty fields remove a part of the target."""
    grams = minor = currency = None
    if form.value("tonnes"):
        tonnes = _read_number(form.value("tonnes"), _TONNE_DECIMALS)
        grams = None if tonnes is None else amounts.to_grams(tonnes, amounts.MassUnit.T)
        if grams is None or not 0 < grams <= amounts.MAX_GRAMS:
            form.fail("tonnes", "Enter a number of tonnes above zero without thousands separators, such as 250 or 1.5.")
    if form.value("budget"):
        currency = form.value("currency")
        if currency not in currencies:
            form.fail("currency", "Choose the currency of one of your accounts.")
            return YearlyTarget()
        decimals = amounts.DECIMALS[currency]
        amount = _read_number(form.value("budget"), decimals)
        minor = None if amount is None else amounts.scaled(amount, decimals)
        if minor is None or not 0 < minor < 10**_MAX_BUDGET_DIGITS:
            message = f"Enter an amount above zero with at most {decimals} decimals, without thousands separators."
            form.fail("budget", message)
    return YearlyTarget(grams, minor, currency)


def _read_number(text: str, decimals: int) -> Decimal | None:
    """A point or a comma is the decimal sign. `1,000` and `1.000` are refused: they may mean a thousand."""
    whole, separator, fraction = text.replace(",", ".").partition(".")
    if len(fraction) > decimals:
        return None
    if decimals != _THOUSANDS and len(fraction) == _THOUSANDS and ("," in text or not fraction.strip("0")):
        return None
    return amounts.parse_decimal(f"{whole}{separator}{fraction}")
