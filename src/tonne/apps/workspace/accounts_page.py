"""The list of an organisation's accounts and client accounts, and new client accounts."""

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.apps.workspace.accounts_of_viewer import scope_of
from tonne.platform.http.route import Response
from tonne.platform.values.context import is_id, new_id
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import see_other
from tonne.selling.accounts.account_list_store import list_accounts_after
from tonne.selling.accounts.change_account import AccountChange, open_account
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.users.model import Right

PER_PAGE = 30
METHODS = {PaymentMethod.INVOICE: "Invoice", PaymentMethod.CARD: "Card"}


class AccountsPage(DashboardPage, frozen=True):
    catalogues: Catalogues

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/accounts": (self.show, Right.VIEW), "/accounts/new": (self.show_new, Right.SETTINGS)},
            forms={"/accounts": (self.create, Right.SETTINGS)},
        )

    async def show(self, viewer: MemberViewer) -> Response:
        after, name = viewer.request.query("after", "name")
        found = await self.database.run(
            list_accounts_after,
            viewer.organisation_id,
            viewer.mode,
            after=after if after and is_id("acc", after) else "",
            limit=PER_PAGE + 1,
            name=(name or "").strip(),
        )
        shown = found[:PER_PAGE]
        return self.layout.page(
            viewer,
            "accounts.html",
            accounts=shown,
            older=shown[-1].id if len(found) > PER_PAGE else None,
            is_first=not after,
            name=(name or "").strip(),
            methods=METHODS,
        )

    async def show_new(self, viewer: MemberViewer) -> Response:
        return await self._new_page(viewer, Form({"payment": ["invoice"]}))

    async def create(self, viewer: MemberViewer, form: Form) -> Response:
        currencies = _currencies(await self.catalogues.current(viewer.mode))
        name = read_name(form, "name", "Enter the name of the customer.")
        beneficiary = name if not form.value("beneficiary") else read_name(form, "beneficiary", "Enter a name.")
        if form.value("currency") not in currencies:
            form.fail("currency", "Choose a currency.")
        if form.value("payment") not in set(PaymentMethod):
            form.fail("payment", "Choose how the account pays.")
        if form.faults:
            return await self._new_page(viewer, form)
        account = Account(
            scope=scope_of(viewer, new_id("acc")),
            kind=AccountKind.CLIENT_ACCOUNT,
            name=name,
            currency=form.value("currency"),
            beneficiary=beneficiary,
            payment_method=PaymentMethod(form.value("payment")),
            created_at=self.clock(),
        )
        async with self.saving(form) as tx:
            await open_account(tx, account, actor=viewer.actor)
        if form.faults:
            return await self._new_page(viewer, form)
        return see_other(f"{viewer.base}/accounts/{account.scope.account_id}?done=account_opened")

    async def _new_page(self, viewer: MemberViewer, form: Form) -> Response:
        currencies = _currencies(await self.catalogues.current(viewer.mode))
        return self.layout.page(
            viewer,
            "account_new.html",
            form,
            fields=fields_of(AccountChange),
            entered=form,
            currencies=currencies,
            methods=METHODS,
        )


def read_name(form: Form, name: str, missing: str) -> str:
    text = form.value(name)
    try:
        return check_name(text)
    except NameInvalid:
        form.fail(name, missing if not text else "Use at most 200 characters on one line.")
        return text


def _currencies(catalogue: Catalogue) -> list[str]:
    """Currencies that have a price: the catalogue's own first."""
    return [catalogue.currency, *sorted(catalogue.rates)]
