"""The customers: list, search, opening a new one, and the page of one, with what the operator changes about it."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.apps.lookup import customer_store
from tonne.apps.lookup.audit_text import audit_rows, find_actor_names
from tonne.apps.lookup.customer_store import Customer, search_customers_any_account
from tonne.channels.public_pages.change_page import close_customer, reopen_customer
from tonne.channels.webhooks.model import Progress, Webhook
from tonne.channels.webhooks.registration_store import list_webhooks, read_progress
from tonne.money.invoices.documents.seller_details import vat_id_of
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import AuditFilter, search_entries_any_account
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Mode, Scope, Tenant, is_id
from tonne.platform.values.paging import START, CursorInvalid, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.accounts import lookup
from tonne.selling.accounts.errors import FeeRateInvalid
from tonne.selling.accounts.organisations import change_organisation
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, check_fee_rate, open_organisation
from tonne.selling.accounts.tax.tax_profile import find_tax_profile
from tonne.selling.accounts.tax.vat_checks import VatAnswer, VatOutcome, find_vat_check, is_checked, record_vat_check
from tonne.selling.orders.totals.totals import BOUGHT, OPEN, OrderTotal, list_totals
from tonne.selling.users.link_store import list_invitations
from tonne.selling.users.links import invite
from tonne.selling.users.model import Role
from tonne.selling.users.store import list_members

PAGE = 25
MAX_SEARCH = 200
FEE_FAULT = "Enter a percentage from 0 to below 100, with at most 3 decimals, such as 10 or 7.5."


class CustomersPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/customers": self.show, "/customers/new": self.show_new},
            forms={"/customers/new": self.open},
            errors=(CursorInvalid,),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        requested, after = viewer.request.query("q", "after")
        text = (requested or "").strip()[:MAX_SEARCH]
        list_name = f"customers {text}"
        paging = Paging(PAGE, parse_cursor(after, list_name), list_name)
        found = await self.database.run(search_customers_any_account, text, paging.start, paging.fetch)
        customers, next_cursor = paging.cut(found)
        return self.layout.page(
            viewer,
            "operator_customers.html",
            customers=customers,
            text=text,
            is_first=after is None,
            next_cursor=next_cursor,
        )

    async def show_new(self, viewer: OperatorViewer) -> Response:
        return self._new(viewer, Form())

    async def open(self, viewer: OperatorViewer, form: Form) -> Response:
        name = form.text("name", "Enter the name of the organisation.")
        fee_rate, email = read_fee_rate(form), form.email()
        if fee_rate is None or form.faults:
            return self._new(viewer, form)
        now = self.clock()
        async with self.saving(form) as tx:
            opened = await open_organisation(tx, name, fee_rate, by=viewer.actor.at(now))
            await invite(
                tx,
                self.settings,
                opened.id,
                email,
                Role.OWNER,
                granter=None,
                invited_by=self.settings.seller_name,
                by=viewer.actor.at(now),
            )
        if form.faults:
            return self._new(viewer, form)
        return see_other(f"{viewer.base}/customers/{opened.id}?done=customer_opened")

    def _new(self, viewer: OperatorViewer, form: Form) -> Response:
        return self.layout.page(
            viewer,
            "operator_customer_new.html",
            form,
            name=form.value("name"),
            fee=form.value("fee") or spell_percent(DEFAULT_FEE_RATE),
            email=form.value("email"),
        )


def read_fee_rate(form: Form) -> Decimal | None:
    """The field `fee`, a percentage, as a rate. None after a fault."""
    try:
        rate = Decimal(form.value("fee").removesuffix("%").strip().replace(",", ".")) / 100
        check_fee_rate(rate)
    except (InvalidOperation, FeeRateInvalid):
        form.fail("fee", FEE_FAULT)
        return None
    return rate


def spell_percent(rate: Decimal) -> str:
    """As it is typed: `10`, `7.5`."""
    return f"{rate * 100:.3f}".rstrip("0").rstrip(".")


ACCOUNTS = 25
AUDIT_ENTRIES = 8
MAX_REASON = 500
BASE = "/customers/{organisation_id}"


class WebhookHealth(Struct, frozen=True):
    webhook: Webhook
    progress: Progress

    @property
    def waiting(self) -> int:
        return max(0, self.progress.last_position - self.progress.cursor_position)

    @property
    def words(self) -> str:
        if not self.webhook.enabled:
            return "Disabled"
        if self.progress.failing_since is not None:
            return "Failing"
        if self.progress.parked:
            return "Refuses events of some accounts"
        return "Delivers"


class CustomerSales(Struct, frozen=True):
    """Open orders, and those of the last twelve months that were not cancelled and did not fail."""

    open_orders: int
    open_grams: int
    orders: int
    grams: int
    spend: dict[str, int]


class CustomerPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={BASE: self.show, f"{BASE}/close": self.show_close, f"{BASE}/reopen": self.show_reopen},
            forms={
                f"{BASE}/fee": self.set_fee,
                f"{BASE}/close": self.close,
                f"{BASE}/reopen": self.reopen,
                f"{BASE}/vat-check": self.record_vat_check,
                f"{BASE}/admins": self.add_admin,
                f"{BASE}/admins/remove": self.remove_admin,
            },
            errors=(CursorInvalid,),
        )

    async def set_fee(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self._find(viewer.request)
        rate = read_fee_rate(form)
        if rate is None:
            return await self.show(viewer, form)
        async with self.database.transaction() as tx:
            await change_organisation.set_fee_rate(tx, customer.id, rate, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/customers/{customer.id}?done=fee")

    async def record_vat_check(self, viewer: OperatorViewer, form: Form) -> Response:
        """What the operator has read in the register about the VAT id of the customer."""
        customer = await self._find(viewer.request)
        profile = await self.database.run(find_tax_profile, customer.id)
        outcome = VatOutcome.VALID if form.value("outcome") == VatOutcome.VALID else VatOutcome.INVALID
        answer = VatAnswer(outcome, consultation_number=form.value("consultation_number") or None)
        async with self.saving(form) as tx:
            by = viewer.actor.at(self.clock())
            await record_vat_check(tx, profile.tax_id or "", vat_id_of(self.settings), answer, by=by)
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/customers/{customer.id}?done=vat_check_recorded")

    async def add_admin(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self._find(viewer.request)
        email = form.email("admin")
        if form.faults:
            return await self.show(viewer, form)
        async with self.database.transaction() as tx:
            await change_organisation.add_admin(tx, customer.id, email, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/customers/{customer.id}?done=admin_added")

    async def remove_admin(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self._find(viewer.request)
        async with self.saving(form) as tx:
            email = form.value("email")
            await change_organisation.remove_admin(tx, customer.id, email, by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/customers/{customer.id}?done=admin_removed")

    async def show_close(self, viewer: OperatorViewer) -> Response:
        return self._closing(viewer, await self._find(viewer.request), Form())

    async def close(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self._find(viewer.request)
        reason = form.text("reason", "Say why, for the audit log.", longest=MAX_REASON)
        if not form.faults:
            async with self.saving(form) as tx:
                await close_customer(
                    tx,
                    customer.id,
                    reason,
                    disable_pages=form.is_checked("disable_pages"),
                    by=viewer.actor.at(self.clock()),
                )
        if form.faults:
            return self._closing(viewer, customer, form)
        return see_other(f"{viewer.base}/customers/{customer.id}?done=customer_closed")

    async def show_reopen(self, viewer: OperatorViewer) -> Response:
        return self._reopening(viewer, await self._find(viewer.request), Form())

    async def reopen(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self._find(viewer.request)
        async with self.saving(form) as tx:
            await reopen_customer(tx, customer.id, by=viewer.actor.at(self.clock()))
        if form.faults:
            return self._reopening(viewer, customer, form)
        return see_other(f"{viewer.base}/customers/{customer.id}?done=customer_reopened")

    async def _find(self, request: Request) -> Customer:
        return await self.database.run(find_customer, request)

    def _closing(self, viewer: OperatorViewer, customer: Customer, form: Form) -> Response:
        return self.layout.page(
            viewer,
            "operator_customer_close.html",
            form,
            customer=customer,
            reason=form.value("reason"),
            disable_pages=form.is_checked("disable_pages"),
        )

    def _reopening(self, viewer: OperatorViewer, customer: Customer, form: Form) -> Response:
        return self.layout.page(viewer, "operator_customer_reopen.html", form, customer=customer)

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        now = self.clock()
        since = _year_before(now.date())
        async with self.database.connection() as connection:
            customer = await find_customer(connection, viewer.request)
            tenant = Tenant(customer.id, viewer.mode)
            list_name = f"accounts of {customer.id} {viewer.mode}"
            paging = Paging(ACCOUNTS, parse_cursor(viewer.request.query("after")[0], list_name), list_name)
            found = await customer_store.list_customer_accounts(connection, tenant, paging.start, paging.fetch)
            search = AuditFilter(mode=viewer.mode)
            entries = (await search_entries_any_account(connection, customer.id, search, START, AUDIT_ENTRIES)).entries
            names = await find_actor_names(connection, None, entries)
            keys = [key for key in await lookup.list_keys(connection, customer.id) if key.scope.mode is viewer.mode]
            tax = await find_tax_profile(connection, customer.id)
            values: dict[str, Any] = {
                "details": await lookup.require_organisation(connection, customer.id),
                "tax": tax,
                "has_register": is_checked(tax.tax_id),
                "vat_check": await find_vat_check(connection, tax.tax_id),
                "keys": sorted(keys, key=lambda key: (key.revoked_at is not None, key.created_at)),
                "webhooks": await _webhooks(connection, customer.id, viewer.mode),
                "members": await list_members(connection, customer.id),
                "invitations": await list_invitations(connection, customer.id, now),
                "invoices": await customer_store.sum_open_invoices(connection, tenant, now.date()),
                "sales": _sales(await list_totals(connection, tenant, since), since),
                "retired_grams": await customer_store.sum_retired_grams(connection, tenant),
            }
        accounts, next_cursor = paging.cut(found)
        return self.layout.page(
            viewer,
            "operator_customer.html",
            form,
            **values,
            customer=customer,
            accounts=accounts,
            is_first=paging.start == START,
            next_cursor=next_cursor,
            rows=audit_rows(entries, names, for_operator=True),
            fee=form.value("fee")
            or spell_percent(Decimal(customer.fee_rate.numerator) / customer.fee_rate.denominator),
            admin=form.value("admin"),
            rate_per_s=self.settings.rate_limit_per_second,
            rate_burst=self.settings.rate_limit_burst,
        )


async def find_customer(connection: Connection, request: Request) -> Customer:
    """The customer in the address. Raises DashboardPageNotFound."""
    organisation_id = request.path("organisation_id")
    is_valid = is_id("org", organisation_id)
    return existing(await customer_store.find_customer(connection, organisation_id) if is_valid else None)


async def _webhooks(connection: Connection, organisation_id: str, mode: Mode) -> list[WebhookHealth]:
    # Webhooks belong to the organisation: no account is needed to list them.
    webhooks = await list_webhooks(connection, Scope(organisation_id, "", mode))
    return [WebhookHealth(each, await read_progress(connection, each)) for each in webhooks]


def _year_before(day: date) -> date:
    """The first day of the month eleven months ago."""
    months = day.year * 12 + day.month - 12
    return date(months // 12, months % 12 + 1, 1)


def _sales(totals: Sequence[OrderTotal], since: date) -> CustomerSales:
    still_open = [each for each in totals if each.status in OPEN]
    bought = [each for each in totals if each.status in BOUGHT and each.month >= since]
    spend: dict[str, int] = {}
    for each in bought:
        spend[each.currency] = spend.get(each.currency, 0) + each.spend_minor
    return CustomerSales(
        open_orders=sum(each.orders for each in still_open),
        open_grams=sum(each.grams for each in still_open),
        orders=sum(each.orders for each in bought),
        grams=sum(each.grams for each in bought),
        spend=spend,
    )
