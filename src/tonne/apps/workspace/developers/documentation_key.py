"""Test keys for readers of the documentation who are signed in: its script puts one into the open page."""

from datetime import timedelta

from msgspec import Struct

from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer, PageAccess, Viewer, organisation_base
from tonne.platform.db.database import Database
from tonne.platform.http.errors import AccountNotFound, FormInvalid
from tonne.platform.http.route import Access, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Clock, Mode, Scope, to_wire
from tonne.platform.web.render import FormIn, FormTokenInvalid
from tonne.selling.accounts.errors import KeyLimitReached
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import KeyRestrictions
from tonne.selling.accounts.keys.store import list_first_accounts
from tonne.selling.users.act_as import ActAsReadOnly
from tonne.selling.users.errors import RoleRefused
from tonne.selling.users.model import Right, role_allows
from tonne.selling.users.store import list_memberships

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
            accounts = await list_first_accounts(tx, viewer.organisation_id, viewer.mode, 1)
            if not accounts:
                raise AccountNotFound("This organisation has no open account in test mode.")
            scope = Scope(viewer.organisation_id, accounts[0][0], viewer.mode)
            limits = KeyRestrictions(expires_at=now + VALID_FOR)
            _, secret = await issue_key(tx, scope, _NAME, actor=viewer.actor, now=now, restrictions=limits)
        response = json_response({"secret": secret, "expires_at": to_wire(now + VALID_FOR)}, 201)
        response.headers |= _NOT_KEPT
        return response

    def routes(self) -> list[Route]:
        script = RouteMaker("Dashboard", Access.USER)
        refused = (DashboardPageNotFound, RoleRefused, ActAsReadOnly, AccountNotFound, KeyLimitReached)
        make = self.access.member_form(Mode.TEST, self.make, Right.TEST_KEYS)
        path = f"{organisation_base(Mode.TEST, '{organisation_id}')}/documentation-key"
        return [
            script("GET /dashboard/documentation-key", self.access.user_page(self.offer)),
            script(f"POST {path}", make, {201: None}, *refused, FormInvalid, FormTokenInvalid, body=FormIn),
        ]
