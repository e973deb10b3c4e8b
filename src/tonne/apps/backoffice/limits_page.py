"""The limits of one account of a customer, and of one API key."""

from msgspec import Struct

from tonne.apps.backoffice.customers_page import BASE, find_customer
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer, existing
from tonne.apps.lookup.customer_store import Customer
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, format_money, format_tonnes, parse_decimal, scaled
from tonne.platform.values.context import Scope
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import see_other
from tonne.selling.accounts import lookup
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.limit_store import AccountLimits, find_limits
from tonne.selling.accounts.model import Account, ApiKey, Fulfil, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.store import find_account
from tonne.selling.orders.placing.spending import NONE, LimitChange, set_account_limits, set_key_limit
from tonne.selling.orders.quotes.errors import HoldQuotaInvalid
from tonne.selling.orders.quotes.set_hold_quota import find_quota_grams, read_quota, set_hold_quota

ACCOUNT = f"{BASE}/accounts/{{account_id}}"
KEY = f"{BASE}/keys/{{key_id}}"


class LimitedAccount(Struct, frozen=True):
    customer: Customer
    account: Account
    limits: AccountLimits
    # What its quotes may hold. None: it has no quota of its own.
    hold_quota_grams: int | None


class LimitsPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={ACCOUNT: self.show_account, KEY: self.show_key},
            forms={ACCOUNT: self.change_account, KEY: self.change_key},
        )

    async def show_account(self, viewer: OperatorViewer) -> Response:
        return self._account_page(viewer, await self._find_account(viewer), Form())

    async def change_account(self, viewer: OperatorViewer, form: Form) -> Response:
        found = await self._find_account(viewer)
        account, now = found.account, self.clock()
        limits = LimitChange(
            monthly_limit=_read_amount(form, "monthly_limit", account.currency) or NONE,
            minimum_order=_read_amount(form, "minimum_order", account.currency) or NONE,
        )
        billing = _read_credit(form, account)
        hold_quota_grams = _read_hold_quota(form)
        if form.faults:
            return self._account_page(viewer, found, form)
        async with self.saving(form) as tx:
            scope, change = account.scope, AccountChange(billing=billing)
            await change_account(tx, scope, change, by=viewer.actor.at(now))
            await set_account_limits(tx, scope, limits, by=viewer.actor.at(now))
            place = (scope.organisation_id, scope.account_id, scope.mode)
            await set_hold_quota(tx, *place, hold_quota_grams, by=viewer.actor.at(now))
        if form.faults:
            return self._account_page(viewer, found, form)
        return see_other(f"{viewer.base}/customers/{found.customer.id}?done=limits")

    async def show_key(self, viewer: OperatorViewer) -> Response:
        return self._key_page(viewer, *await self._find_key(viewer), Form())

    async def change_key(self, viewer: OperatorViewer, form: Form) -> Response:
        customer, key = await self._find_key(viewer)
        limit = _read_amount(form, "monthly_limit", key.currency) or NONE
        if form.faults:
            return self._key_page(viewer, customer, key, form)
        await self.database.commit(set_key_limit, key.id, limit, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/customers/{customer.id}?done=limits")

    async def _find_account(self, viewer: OperatorViewer) -> LimitedAccount:
        async with self.database.connection() as connection:
            customer = await find_customer(connection, viewer.request)
            account = existing(
                await find_account(connection, Scope(customer.id, viewer.request.path("account_id"), viewer.mode))
            )
            limits = await find_limits(connection, account.scope)
            quota = await find_quota_grams(connection, customer.id, account.scope.account_id, viewer.mode)
            return LimitedAccount(customer, account, limits, quota)

    async def _find_key(self, viewer: OperatorViewer) -> tuple[Customer, ApiKey]:
        async with self.database.connection() as connection:
            customer = await find_customer(connection, viewer.request)
            keys = await lookup.list_keys(connection, customer.id)
        for key in keys:
            if key.id == viewer.request.path("key_id") and key.scope.mode is viewer.mode:
                return customer, key
        raise DashboardPageNotFound

    def _account_page(self, viewer: OperatorViewer, found: LimitedAccount, form: Form) -> Response:
        account, limits = found.account, found.limits
        stored = {
            "monthly_limit": [_spell(limits.monthly_limit_minor, account.currency)],
            "minimum_order": [_spell(limits.minimum_order_minor, account.currency)],
            "credit_limit": [_spell(account.credit_limit_minor, account.currency)],
            "hold_quota": [_spell_quota(found.hold_quota_grams)],
            "on_credit": ["1"] if account.fulfil is Fulfil.ON_ORDER else [],
        }
        return self.layout.page(
            viewer,
            "operator_account_limits.html",
            form,
            customer=found.customer,
            account=account,
            takes_credit=account.payment_method is PaymentMethod.INVOICE,
            limit_fields=fields_of(LimitChange),
            credit_limit=fields_of(BillingChange)["credit_limit"],
            entered=form if form.faults else Form(stored),
        )

    def _key_page(self, viewer: OperatorViewer, customer: Customer, key: ApiKey, form: Form) -> Response:
        return self.layout.page(
            viewer,
            "operator_key_limit.html",
            form,
            customer=customer,
            key=key,
            monthly_limit=form.value("monthly_limit") or _spell(key.monthly_limit_minor, key.currency),
        )


def _spell(minor: int | None, currency: str) -> str:
    return "" if minor is None else format_money(minor, currency)


def _spell_quota(grams: int | None) -> str:
    return "" if grams is None else format_tonnes(grams)


def _read_hold_quota(form: Form) -> int | None:
    text = form.value("hold_quota").strip()
    try:
        return read_quota(text) if text else None
    except HoldQuotaInvalid:
        form.fail("hold_quota", "Enter tonnes, such as 500, or leave the field empty.")
        return None


def _read_amount(form: Form, name: str, currency: str) -> str:
    """An amount as the use cases take it; empty if there is none, or after a fault."""
    text = form.value(name)
    number = parse_decimal(text) if text else None
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if text and (minor is None or minor < 0):
        example = format_money(100_000, currency)
        form.fail(name, f"Enter an amount in {currency}, such as {example}, or leave the field empty.")
        return ""
    return text


def _read_credit(form: Form, account: Account) -> BillingChange:
    if account.payment_method is not PaymentMethod.INVOICE:
        return BillingChange()
    amount = _read_amount(form, "credit_limit", account.currency)
    if not form.is_checked("on_credit"):
        return BillingChange(fulfil=Fulfil.ON_PAYMENT)
    if not amount:
        form.fail("credit_limit", "Enter the most that may be unpaid at a time.")
    return BillingChange(fulfil=Fulfil.ON_ORDER, credit_limit=amount)
