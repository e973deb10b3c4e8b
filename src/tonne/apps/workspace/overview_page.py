"""The first page of an organisation: the year against its target, what needs attention, spend and tonnes per month."""

from decimal import Decimal

from babel import Locale

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace import attention_store as store
from tonne.apps.workspace.attention import list_attention, menu_path
from tonne.apps.workspace.overview_figures import figures_of, first_month, removal_share
from tonne.platform.http.route import Request, Response
from tonne.platform.values import amounts
from tonne.platform.web.render import see_other
from tonne.platform.web.visitor import locale_of
from tonne.selling.accounts.set_target import YearlyTarget, find_target, set_target
from tonne.selling.orders.totals.totals import list_totals
from tonne.selling.users.model import Right

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
        organisation_id, mode, today = viewer.organisation_id, viewer.mode, now.date()
        async with self.database.connection() as connection:
            totals = await list_totals(connection, organisation_id, mode, first_month(today))
            target = await find_target(connection, organisation_id, mode)
            shares = await store.sum_retired_shares(connection, organisation_id, mode, today.replace(month=1, day=1))
            invoices = await store.list_next_invoices(connection, organisation_id, mode)
            attention = await list_attention(connection, organisation_id, mode, now=now, locale=locale)
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
        target = await self.database.run(find_target, viewer.organisation_id, viewer.mode)
        grams, minor, currency = target.target_grams, target.budget_minor, target.budget_currency
        fields = {
            "tonnes": [] if grams is None else [amounts.format_tonnes(grams)],
            "budget": [] if minor is None or currency is None else [amounts.format_money(minor, currency)],
            "currency": [] if currency is None else [currency],
        }
        return await self._target_page(viewer, Form(fields))

    async def change_target(self, viewer: MemberViewer, form: Form) -> Response:
        known = await self.database.run(store.list_account_currencies, viewer.organisation_id, viewer.mode)
        target = _read_target(form, known)
        if form.faults:
            return await self._target_page(viewer, form)
        async with self.database.transaction() as tx:
            await set_target(tx, viewer.organisation_id, viewer.mode, target, actor=viewer.actor, now=self.clock())
        return see_other(f"{viewer.base}/overview?done=target")

    async def _target_page(self, viewer: MemberViewer, form: Form) -> Response:
        known = await self.database.run(store.list_account_currencies, viewer.organisation_id, viewer.mode)
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
