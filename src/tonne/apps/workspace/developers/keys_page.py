"""The API keys of an organisation in one mode, and the form of a new one.

Readers of the documentation who are signed in get a test key: its script puts one into the open page.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import (
    DashboardPageNotFound,
    Form,
    MemberViewer,
    PageAccess,
    Viewer,
    existing,
    organisation_base,
)
from tonne.apps.workspace.developers.key_text import access_text, creator_of, group_choices, short_access, state_of
from tonne.platform.db.database import Connection, Database
from tonne.platform.http.errors import AccountNotFound, FormInvalid
from tonne.platform.http.route import Response, Route, json_response
from tonne.platform.values.context import Clock, Mode, Scope, to_wire
from tonne.platform.values.paging import START
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import FormIn, FormTokenInvalid, see_other
from tonne.selling.accounts.errors import KeyLimitReached, KeyNotFound, KeyRestrictionInvalid
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key, rotate_key
from tonne.selling.accounts.keys.endpoints import ApiKeyIn
from tonne.selling.accounts.keys.restrictions import UNRESTRICTED, KeyRestrictions, check_restrictions
from tonne.selling.accounts.keys.store import list_first_accounts
from tonne.selling.accounts.model import ApiKey
from tonne.selling.users.act_as import ActAsReadOnly
from tonne.selling.users.errors import RoleRefused
from tonne.selling.users.model import Right, role_allows
from tonne.selling.users.store import list_members, list_memberships

# By the number of days; the empty value is never.
EXPIRIES = {"": "Never", "7": "In 7 days", "30": "In 30 days", "90": "In 90 days", "365": "In one year"}
# What most shops need. A live key expires, and may do only this, unless the person chooses otherwise.
USUAL = {
    "orders": "write",
    "estimates": "write",
    "catalogue": "read",
    "checkouts": "write",
    "certificates": "read",
    "invoices": "read",
    "account": "read",
}


class KeyForm(Struct):
    """The values of the form, as typed."""

    mode: Mode
    name: str = ""
    access: str = "all"
    chosen: Mapping[str, str] = field(default_factory=lambda: USUAL)
    accounts: str = "all"
    account_ids: Sequence[str] = ()
    default_account_id: str = ""
    networks: str = ""
    expires: str = ""

    @classmethod
    def empty(cls, mode: Mode) -> "KeyForm":
        if mode is Mode.TEST:
            return cls(mode)
        return cls(mode, access="some", expires="365")

    @classmethod
    def of(cls, mode: Mode, form: Form) -> "KeyForm":
        return cls(
            mode,
            name=form.text("name", "Enter what the key is for."),
            access=form.value("access"),
            chosen={each.group.value: form.value(f"group_{each.group}") for each in group_choices(mode)},
            accounts=form.value("accounts"),
            account_ids=[each.strip() for text in form.fields.get("account_ids", []) for each in text.split() if each],
            default_account_id=form.value("default_account_id"),
            networks=form.value("networks"),
            expires=form.value("expires"),
        )

    def restrictions(self, form: Form, now: datetime) -> KeyRestrictions:
        """Adds faults to the form."""
        permissions = None
        if self.access != "all":
            permissions = [
                f"{each.group}:{access}"
                for each in group_choices(self.mode)
                if (access := self.chosen.get(each.group, "")) in each.accesses and access
            ]
        if self.expires not in EXPIRIES:
            form.fail("expires", "Choose when the key expires.")
        if self.accounts == "some" and not self.account_ids:
            form.fail("account_ids", "Choose at least one account, or allow all accounts.")
        if form.faults:
            return UNRESTRICTED
        try:
            return check_restrictions(
                permissions,
                self.account_ids if self.accounts == "some" else None,
                self.networks.replace(",", " ").split(),
                now + timedelta(days=int(self.expires)) if self.expires else None,
                now,
            )
        except KeyRestrictionInvalid as error:
            form.fail_with(error)
            return UNRESTRICTED


# More keys than an organisation can have at a time, with those that ended.
SHOWN = 500
# With more accounts, their ids are typed in: a form has at most 200 fields.
MAX_CHOICES = 100
OVERLAPS = {"0": "At once", "1": "After 1 hour", "24": "After 24 hours", "168": "After 7 days"}
DEFAULT_OVERLAP = "24"


class ShownKey(Struct, frozen=True):
    key: ApiKey
    access: str
    state: str
    badge: str
    created_by: str


class KeysPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        # Live keys need more than this right: see `_require_right`.
        right = Right.TEST_KEYS
        return OrganisationSection(
            pages={
                "/keys": (self.show, Right.VIEW),
                "/keys/new": (self.show_form, right),
                "/keys/{key_id}": (self.show_key, Right.VIEW),
                "/keys/{key_id}/revoke": (self.confirm_revocation, right),
            },
            forms={
                "/keys": (self.create, right),
                "/keys/{key_id}/rotate": (self.rotate, right),
                "/keys/{key_id}/revoke": (self.revoke, right),
            },
        )

    async def show(self, viewer: MemberViewer) -> Response:
        shown = await self._list(viewer)
        return self._page(
            viewer,
            "keys.html",
            working=[each for each in shown if each.state in {"Works", "Rotated"}],
            ended=[each for each in shown if each.state not in {"Works", "Rotated"}],
        )

    async def show_form(self, viewer: MemberViewer) -> Response:
        _require_right(viewer)
        return await self._form_page(viewer, KeyForm.empty(viewer.mode), Form())

    async def create(self, viewer: MemberViewer, form: Form) -> Response:
        _require_right(viewer)
        now = self.clock()
        values = KeyForm.of(viewer.mode, form)
        restrictions = values.restrictions(form, now)
        if not form.faults:
            async with self.saving(form) as tx:
                account = await _default_account(tx, viewer, values)
                key, secret = await issue_key(
                    tx, account, values.name, by=viewer.actor.at(now), restrictions=restrictions
                )
        if form.faults:
            return await self._form_page(viewer, values, form)
        return self._secret_page(viewer, key, secret)

    async def rotate(self, viewer: MemberViewer, form: Form) -> Response:
        _require_right(viewer)
        key = await self._find(viewer)
        if form.value("overlap") not in OVERLAPS:
            form.fail("overlap", "Choose when the old key ends.")
        if not form.faults:
            overlap = timedelta(hours=int(form.value("overlap")))
            async with self.saving(form) as tx:
                new, secret = await rotate_key(
                    tx, viewer.tenant, key.id, overlap=overlap, by=viewer.actor.at(self.clock())
                )
        if form.faults:
            return await self.show_key(viewer, form)
        return self._secret_page(viewer, new, secret, old=key)

    async def confirm_revocation(self, viewer: MemberViewer) -> Response:
        _require_right(viewer)
        key = await self._find(viewer)
        return self._page(viewer, "key_revoke.html", key=key, access=short_access(key))

    async def revoke(self, viewer: MemberViewer, _: Form) -> Response:
        _require_right(viewer)
        try:
            async with self.database.transaction() as tx:
                await revoke_key(
                    tx, viewer.request.path("key_id"), by=viewer.actor.at(self.clock()), tenant=viewer.tenant
                )
        except KeyNotFound as error:
            raise DashboardPageNotFound from error
        return see_other(f"{viewer.base}/keys?done=key_revoked")

    async def _find(self, viewer: MemberViewer) -> ApiKey:
        return await self.find(key_store.find_key, viewer.tenant, viewer.request.path("key_id"))

    async def _list(self, viewer: MemberViewer) -> list[ShownKey]:
        now = self.clock()
        async with self.database.connection() as connection:
            keys = await key_store.list_mode_keys(connection, viewer.tenant, START, SHOWN)
            members = await list_members(connection, viewer.organisation_id)
        names = {member.user_id: member.name for member in members}
        key_names = {key.id: key.name for key in keys}
        return [_shown(key, names, key_names, now) for key in keys]

    async def show_key(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        key_id = (await self._find(viewer)).id
        shown = existing(next((each for each in await self._list(viewer) if each.key.id == key_id), None))
        accounts = await self.database.run(key_store.list_account_names, viewer.tenant, _named_accounts(shown.key))
        return self._page(
            viewer,
            "key.html",
            form,
            shown=shown,
            lines=access_text(shown.key),
            accounts=dict(accounts),
            overlaps=OVERLAPS,
            overlap=form.value("overlap") or DEFAULT_OVERLAP,
            can_rotate=shown.state == "Works",
        )

    async def _form_page(self, viewer: MemberViewer, values: KeyForm, form: Form) -> Response:
        accounts = await self.database.run(key_store.list_first_accounts, viewer.tenant, MAX_CHOICES + 1)
        return self._page(
            viewer,
            "key_new.html",
            form,
            fields=fields_of(ApiKeyIn),
            values=values,
            choices=group_choices(viewer.mode),
            expiries=EXPIRIES,
            accounts=accounts[:MAX_CHOICES],
            are_all_accounts=len(accounts) <= MAX_CHOICES,
            client=viewer.request.client,
        )

    def _secret_page(self, viewer: MemberViewer, key: ApiKey, secret: str, old: ApiKey | None = None) -> Response:
        return self._page(viewer, "key_secret.html", key=key, secret=secret, old=old)

    def _page(self, viewer: MemberViewer, template: str, form: Form | None = None, **values: Any) -> Response:
        return self.layout.page(viewer, template, form, here="keys", may_change=_may_change(viewer), **values)


def _may_change(viewer: MemberViewer) -> bool:
    return viewer.may(Right.LIVE_KEYS if viewer.mode is Mode.LIVE else Right.TEST_KEYS)


def _require_right(viewer: MemberViewer) -> None:
    """Live keys: owners and admins. Test keys: developers, too."""
    if not _may_change(viewer):
        raise RoleRefused


def _shown(key: ApiKey, members: dict[str, str], keys: dict[str, str], now: datetime) -> ShownKey:
    state, badge = state_of(key, now)
    return ShownKey(key, short_access(key), state, badge, creator_of(key, members, keys))


def _named_accounts(key: ApiKey) -> list[str]:
    return [key.scope.account_id, *(key.restrictions.account_ids or ())]


async def _default_account(tx: Connection, viewer: MemberViewer, values: KeyForm) -> Scope:
    """The account of requests that name none: the chosen one, else the first that the key may use."""
    chosen = values.default_account_id
    if values.accounts == "some" and chosen not in values.account_ids:
        chosen = values.account_ids[0]
    found = await key_store.list_account_names(tx, viewer.tenant, [chosen])
    if not found:
        raise AccountNotFound("Choose an account of this organisation.", field="default_account_id")
    return Scope(viewer.organisation_id, chosen, viewer.mode)


VALID_FOR = timedelta(hours=24)
_NAME = "Documentation"
_NOT_KEPT = {"Cache-Control": "no-store"}


class DocumentationKey(Struct, frozen=True):
    database: Database
    access: PageAccess
    clock: Clock

    async def offer(self, viewer: Viewer) -> Response:
        """The organisations that the reader may make a test key of, and the token that this needs."""
        token, cookie = self.access.guard.issue(viewer.request)
        organisations = [
            {"id": each.organisation_id, "name": each.organisation_name}
            for each in await self.database.run(list_memberships, viewer.user.id)
            if role_allows(each.role, Right.TEST_KEYS)
        ]
        response = json_response({"form_token": token, "organisations": organisations})
        response.headers |= {**_NOT_KEPT, **cookie}
        return response

    async def make(self, viewer: MemberViewer, _form: Form) -> Response:
        now = self.clock()
        async with self.database.transaction() as tx:
            accounts = await list_first_accounts(tx, viewer.tenant, 1)
            if not accounts:
                raise AccountNotFound("This organisation has no open account in test mode.")
            scope = Scope(viewer.organisation_id, accounts[0][0], viewer.mode)
            limits = KeyRestrictions(expires_at=now + VALID_FOR)
            _, secret = await issue_key(tx, scope, _NAME, by=viewer.actor.at(now), restrictions=limits)
        response = json_response({"secret": secret, "expires_at": to_wire(now + VALID_FOR)}, 201)
        response.headers |= _NOT_KEPT
        return response

    def routes(self) -> list[Route]:
        script = self.access.route_maker()
        refused = (DashboardPageNotFound, RoleRefused, ActAsReadOnly, AccountNotFound, KeyLimitReached)
        make = self.access.member_form(Mode.TEST, self.make, Right.TEST_KEYS)
        path = f"{organisation_base(Mode.TEST, '{organisation_id}')}/documentation-key"
        return [
            script("GET /dashboard/documentation-key", self.access.user_page(self.offer)),
            script(f"POST {path}", make, {201: None}, *refused, FormInvalid, FormTokenInvalid, body=FormIn),
        ]
