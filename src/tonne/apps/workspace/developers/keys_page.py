"""The API keys of an organisation in one mode."""

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, MemberViewer
from tonne.apps.workspace.developers.key_form import EXPIRIES, KeyForm
from tonne.apps.workspace.developers.key_text import access_text, creator_of, group_choices, short_access, state_of
from tonne.platform.db.database import Connection
from tonne.platform.http.errors import AccountNotFound
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.errors import TonneError
from tonne.platform.values.paging import START
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import see_other
from tonne.selling.accounts.errors import KeyNotFound
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key, rotate_key
from tonne.selling.accounts.keys.endpoints import ApiKeyIn
from tonne.selling.accounts.model import ApiKey
from tonne.selling.users.errors import RoleRefused
from tonne.selling.users.model import Right
from tonne.selling.users.store import list_members

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

    async def show(self, request: Request, viewer: MemberViewer) -> Response:
        shown = await self._list(viewer)
        return self._page(
            request,
            viewer,
            "keys.html",
            working=[each for each in shown if each.state in {"Works", "Rotated"}],
            ended=[each for each in shown if each.state not in {"Works", "Rotated"}],
        )

    async def show_form(self, request: Request, viewer: MemberViewer) -> Response:
        _require_right(viewer)
        return await self._form_page(request, viewer, KeyForm.empty(viewer.mode), Form())

    async def create(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        _require_right(viewer)
        form, now = Form(fields), self.clock()
        values = KeyForm.of(viewer.mode, form, fields)
        restrictions = values.restrictions(form, now)
        if not form.faults:
            try:
                async with self.database.transaction() as tx:
                    key, secret = await issue_key(
                        tx,
                        await _default_account(tx, viewer, values),
                        values.name,
                        actor=viewer.actor,
                        now=now,
                        restrictions=restrictions,
                    )
            except TonneError as error:
                form.fail_with(error)
            else:
                return self._secret_page(request, viewer, key, secret)
        return await self._form_page(request, viewer, values, form)

    async def show_key(self, request: Request, viewer: MemberViewer) -> Response:
        return await self._key_page(request, viewer, Form())

    async def rotate(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        _require_right(viewer)
        form, key = Form(fields), await self._find(request, viewer)
        if form.value("overlap") not in OVERLAPS:
            form.fail("overlap", "Choose when the old key ends.")
        if not form.faults:
            try:
                async with self.database.transaction() as tx:
                    new, secret = await rotate_key(
                        tx,
                        viewer.organisation_id,
                        viewer.mode,
                        key.id,
                        overlap=timedelta(hours=int(form.value("overlap"))),
                        actor=viewer.actor,
                        now=self.clock(),
                    )
            except TonneError as error:
                form.fail_with(error)
            else:
                return self._secret_page(request, viewer, new, secret, old=key)
        return await self._key_page(request, viewer, form)

    async def confirm_revocation(self, request: Request, viewer: MemberViewer) -> Response:
        _require_right(viewer)
        key = await self._find(request, viewer)
        return self._page(request, viewer, "key_revoke.html", key=key, access=short_access(key))

    async def revoke(self, request: Request, viewer: MemberViewer, _: Fields) -> Response:
        _require_right(viewer)
        place = (viewer.organisation_id, viewer.mode)
        try:
            async with self.database.transaction() as tx:
                await revoke_key(tx, request.path("key_id"), actor=viewer.actor, now=self.clock(), place=place)
        except KeyNotFound as error:
            raise DashboardPageNotFound from error
        return see_other(f"{viewer.base}/keys?done=key_revoked")

    async def _find(self, request: Request, viewer: MemberViewer) -> ApiKey:
        async with self.database.connection() as connection:
            key = await key_store.find_key(connection, viewer.organisation_id, viewer.mode, request.path("key_id"))
        if key is None:
            raise DashboardPageNotFound
        return key

    async def _list(self, viewer: MemberViewer) -> list[ShownKey]:
        now = self.clock()
        async with self.database.connection() as connection:
            keys = await key_store.list_mode_keys(connection, viewer.organisation_id, viewer.mode, START, SHOWN)
            members = await list_members(connection, viewer.organisation_id)
        names = {member.user_id: member.name for member in members}
        key_names = {key.id: key.name for key in keys}
        return [_shown(key, names, key_names, now) for key in keys]

    async def _key_page(self, request: Request, viewer: MemberViewer, form: Form) -> Response:
        key_id = (await self._find(request, viewer)).id
        shown = next((each for each in await self._list(viewer) if each.key.id == key_id), None)
        if shown is None:
            raise DashboardPageNotFound
        async with self.database.connection() as connection:
            accounts = await key_store.list_account_names(
                connection, viewer.organisation_id, viewer.mode, _named_accounts(shown.key)
            )
        return self._page(
            request,
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

    async def _form_page(self, request: Request, viewer: MemberViewer, values: KeyForm, form: Form) -> Response:
        async with self.database.connection() as connection:
            accounts = await key_store.list_first_accounts(
                connection, viewer.organisation_id, viewer.mode, MAX_CHOICES + 1
            )
        return self._page(
            request,
            viewer,
            "key_new.html",
            form,
            fields=fields_of(ApiKeyIn),
            values=values,
            choices=group_choices(viewer.mode),
            expiries=EXPIRIES,
            accounts=accounts[:MAX_CHOICES],
            are_all_accounts=len(accounts) <= MAX_CHOICES,
            client=request.client,
        )

    def _secret_page(
        self, request: Request, viewer: MemberViewer, key: ApiKey, secret: str, old: ApiKey | None = None
    ) -> Response:
        return self._page(request, viewer, "key_secret.html", key=key, secret=secret, old=old)

    def _page(
        self, request: Request, viewer: MemberViewer, template: str, form: Form | None = None, **values: Any
    ) -> Response:
        return self.layout.page(request, viewer, template, form, here="keys", may_change=_may_change(viewer), **values)


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
    found = await key_store.list_account_names(tx, viewer.organisation_id, viewer.mode, [chosen])
    if not found:
        raise AccountNotFound("Choose an account of this organisation.", field="default_account_id")
    return Scope(viewer.organisation_id, chosen, viewer.mode)
