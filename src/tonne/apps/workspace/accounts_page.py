"""The accounts and client accounts of an organisation: their list, new client accounts, and the page of one."""

from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import require_account, scope_of
from tonne.apps.workspace.mix import default_shares, mix_rows, read_mix, typed_shares
from tonne.apps.workspace.payment_ways import BILLING, payment_ways
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.money.cards.stored_cards.stored_card_store import find_card
from tonne.money.cards.stored_cards.stored_cards import schedule_removal
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.http.route import Response
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.context import Mode, is_id, new_id
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import LanguageCode
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import see_other
from tonne.selling.accounts.account_schemas import is_handle
from tonne.selling.accounts.change_account import (
    AccountChange,
    archive_account,
    change_account,
    close_account,
    open_account,
)
from tonne.selling.accounts.directory import AccountDirectory, has_own_selection, list_accounts_after
from tonne.selling.accounts.errors import BillingInvalid, NameInvalid
from tonne.selling.accounts.limit_store import find_limits
from tonne.selling.accounts.model import Account, AccountKind, Fulfil, PagesVisibility, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.accounts.tax.tax_profile import find_tax_profile
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.set_default_selection import set_account_default
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.users.model import Right

E = TypeVar("E", bound=StrEnum)
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
            viewer.tenant,
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


FIELDS = fields_of(AccountChange)
_ON_CREDIT = "Orders of this account are fulfilled before they are paid, so it pays by invoice."
_BILLING = "The billing of this account does not allow this."
VISIBILITIES = {
    PagesVisibility.PUBLIC: "Public",
    PagesVisibility.HIDDEN: "Hidden: who has the address can open them",
    PagesVisibility.PRIVATE: "Private: nobody can open them",
}


class AccountPage(DashboardPage, frozen=True):
    catalogues: Catalogues
    directory: AccountDirectory
    box: SecretBox

    def section(self) -> OrganisationSection:
        path = "/accounts/{account_id}"
        return OrganisationSection(
            pages={path: (self.show, Right.VIEW), f"{path}/close": (self.show_close, Right.SETTINGS)},
            forms={
                path: (self.change, Right.SETTINGS),
                f"{path}/payment": (self.change_payment, Right.MONEY),
                f"{path}/mix": (self.change_mix, Right.SETTINGS),
                f"{path}/card": (self.open_card_page, Right.MONEY),
                f"{path}/close": (self.close, Right.SETTINGS),
                f"{path}/archive": (partial(self.archive, archived=True), Right.SETTINGS),
                f"{path}/unarchive": (partial(self.archive, archived=False), Right.SETTINGS),
            },
        )

    async def show(self, viewer: MemberViewer) -> Response:
        return await self._page(viewer, await self._find(viewer), Form())

    async def change(self, viewer: MemberViewer, form: Form) -> Response:
        account = await self._find(viewer)
        change = AccountChange(
            name=read_name(form, "name", "Enter a name."),
            beneficiary=read_name(form, "beneficiary", "Enter the name that credits are retired for."),
            receipt_email=_read_email(form, "receipt_email"),
            card_email=_read_email(form, "card_email"),
            language=_read_choice(form, "language", LanguageCode, "Choose a language."),
            handle=_read_handle(form),
            external_pages_visibility=_read_choice(
                form, "external_pages_visibility", PagesVisibility, "Choose who can open the pages."
            ),
            fulfil_delay=form.value("fulfil_delay") or "0" if "fulfil_delay" in form.names() else None,
            reference=_read_reference(form) if account.kind is AccountKind.CLIENT_ACCOUNT else None,
            auto_advance=form.is_checked("auto_advance") if viewer.mode is Mode.TEST else None,
        )
        return await self._save(viewer, account, form, change)

    async def change_payment(self, viewer: MemberViewer, form: Form) -> Response:
        account = await self._find(viewer)
        method = form.choice("payment", PaymentMethod, "Choose how the account pays.")
        if method is None:
            return await self._page(viewer, account, form)
        if method is PaymentMethod.CARD and account.fulfil is Fulfil.ON_ORDER:
            form.fail("payment", f"{_ON_CREDIT} {self._ask}")
        return await self._save(viewer, account, form, AccountChange(payment_method=method))

    async def change_mix(self, viewer: MemberViewer, form: Form) -> Response:
        """Without any share, the default mix of the organisation applies again."""
        account = await self._find(viewer)
        choices = read_mix(form, await self.catalogues.current(viewer.mode), is_optional=True)
        if not form.faults:
            async with self.saving(form) as tx:
                await set_account_default(tx, account.scope, choices, by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self._page(viewer, account, form)
        self.directory.forget_terms(account.scope)
        return see_other(f"{self._path(viewer, account)}?done=account_mix")

    async def open_card_page(self, viewer: MemberViewer, _: Form) -> Response:
        """To the page on which a payer enters a card. The card itself is in the audit log."""
        account = await self._find(viewer)
        async with self.database.transaction() as tx:
            url = await card_page_url(tx, account.scope, box=self.box, settings=self.settings, now=self.clock())
        return see_other(url.removeprefix(self.settings.base_url))

    async def show_close(self, viewer: MemberViewer) -> Response:
        return await self._close_page(viewer, await self._find(viewer), Form())

    async def close(self, viewer: MemberViewer, form: Form) -> Response:
        account = await self._find_client(viewer)
        reason = form.text("reason", "Say why, for the audit log.")
        if not form.faults:
            now = self.clock()
            async with self.saving(form) as tx:
                await close_account(tx, account.scope, reason, by=viewer.actor.at(now))
                await schedule_removal(tx, account.scope, now)
        if form.faults:
            return await self._close_page(viewer, account, form)
        self.directory.forget_terms(account.scope)
        return see_other(f"{self._path(viewer, account)}?done=account_closed")

    @property
    def _ask(self) -> str:
        return f"Ask {self.settings.seller_name} to change that."

    def _path(self, viewer: MemberViewer, account: Account) -> str:
        return f"{viewer.base}/accounts/{account.scope.account_id}"

    async def _find(self, viewer: MemberViewer) -> Account:
        return await self.database.run(require_account, viewer, viewer.request.path("account_id"))

    async def _find_client(self, viewer: MemberViewer) -> Account:
        """Members close and archive client accounts only. The organisation's own are closed by the operator."""
        account = await self._find(viewer)
        if account.kind is not AccountKind.CLIENT_ACCOUNT:
            raise DashboardPageNotFound
        return account

    async def archive(self, viewer: MemberViewer, _: Form, *, archived: bool) -> Response:
        account = await self._find_client(viewer)
        async with self.database.transaction() as tx:
            await archive_account(tx, account.scope, archived=archived, by=viewer.actor.at(self.clock()))
        self.directory.forget_terms(account.scope)
        done = "account_archived" if archived else "account_unarchived"
        return see_other(f"{self._path(viewer, account)}?done={done}")

    async def _save(self, viewer: MemberViewer, account: Account, form: Form, change: AccountChange) -> Response:
        if not form.faults:
            try:
                await self.database.commit(change_account, account.scope, change, by=viewer.actor.at(self.clock()))
            except BillingInvalid:
                form.fail("payment", f"{_BILLING} {self._ask}")
            except TonneError as error:
                form.fail_with(error)
            else:
                self.directory.forget_terms(account.scope)
                return see_other(f"{self._path(viewer, account)}?done=account_saved")
        return await self._page(viewer, account, form)

    async def _page(self, viewer: MemberViewer, account: Account, form: Form) -> Response:
        terms, catalogue = await self.directory.terms_of(account.scope), await self.catalogues.current(viewer.mode)
        async with self.database.connection() as connection:
            card = await find_card(connection, account.scope)
            limits = await find_limits(connection, account.scope)
            values: dict[str, Any] = {
                "tax_profile": await find_tax_profile(connection, viewer.organisation_id),
                "has_own_mix": await has_own_selection(connection, account.scope),
            }
        is_typed = any(name.startswith("share_") for name in form.names())
        shares = typed_shares(form, catalogue) if is_typed else default_shares(terms, catalogue)
        return self.layout.page(
            viewer,
            "account.html",
            form,
            account=account,
            fields=FIELDS,
            entered=_entered(form, account),
            terms=terms,
            limits=limits,
            closed_at=limits.closed_at or limits.organisation_closed_at,
            card=card,
            ways=payment_ways(account, card, takes_cards=takes_cards(self.settings, viewer.mode)),
            rows=mix_rows(catalogue, terms, shares),
            methods=METHODS,
            visibilities=VISIBILITIES,
            billing=BILLING[account.billing],
            **values,
        )

    async def _close_page(self, viewer: MemberViewer, account: Account, form: Form) -> Response:
        return self.layout.page(viewer, "account_close.html", form, account=account, reason=form.value("reason"))


def _read_email(form: Form, name: str) -> str:
    """Empty: nobody."""
    email = form.value(name)
    if email and not is_mail_address(email):
        form.fail(name, "Enter an e-mail address, such as ann@example.com, or leave it empty.")
    return email


def _read_choice(form: Form, name: str, kind: type[E], missing: str) -> E | None:
    """None keeps the stored one."""
    return form.choice(name, kind, missing) if form.value(name) else None


def _read_handle(form: Form) -> str | None:
    """Empty removes the stored one."""
    if "handle" not in form.names():
        return None
    handle = form.value("handle")
    if handle and not is_handle(handle):
        form.fail(
            "handle", "Use up to 100 letters, digits, hyphens and underscores, with a letter or digit at both ends."
        )
    return handle


def _read_reference(form: Form) -> str | None:
    """Empty removes the stored one."""
    if "reference" not in form.names():
        return None
    return form.text("reference", "") if form.value("reference") else ""


def _entered(form: Form, account: Account) -> Form:
    """What was typed, and the stored values of other fields. A checkbox has the value 1, or none."""
    values = {name: getattr(account, name) for name in FIELDS}
    stored = {name: ["1" if value is True else str(value or "")] for name, value in values.items()}
    return Form({**stored, "payment": [account.payment_method], **form.fields})
