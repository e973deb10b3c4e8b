"""The page behind the link of an invitation."""

from msgspec import Struct

from tonne.apps.dashboard.viewer import Form, organisation_base
from tonne.platform.db.database import Database
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Clock, Mode
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users.link_store import INVITATION
from tonne.selling.users.links import accept_as_new_user, accept_as_user, require_link
from tonne.selling.users.passwords import Passwords, check_new_password
from tonne.selling.users.sign_in import Sessions
from tonne.selling.users.store import find_user_by_email


class InvitationPage(Struct, frozen=True):
    database: Database
    renderer: Renderer
    guard: FormGuard
    sessions: Sessions
    passwords: Passwords
    clock: Clock

    async def show(self, request: Request) -> Response:
        """Raises LinkExpired."""
        return await self._page(request, Form())

    async def accept(self, request: Request) -> Response:
        """A new user chooses a password and is signed in; a user who is signed in joins. Raises LinkExpired."""
        form = Form(self.guard.check(request))
        token, now, session = request.path("token"), self.clock(), await self.sessions.find(request)
        if session is not None and session.is_complete:
            async with self.database.transaction() as tx:
                link = await accept_as_user(tx, token, session.user, address=request.client, now=now)
            return see_other(organisation_base(Mode.LIVE, link.organisation_id or ""))
        async with self.database.transaction() as tx:
            link = await require_link(tx, token, INVITATION, now)
        name, password = form.text("name", "Enter your name."), form.raw("password")
        with form.catch():
            check_new_password(password, link.email)
        if password != form.raw("repeat"):
            form.fail("repeat", "The two passwords differ. Enter the same password twice.")
        if not form.faults:
            password_hash = await self.passwords.hash(password)
            with form.catch():
                async with self.database.transaction() as tx:
                    user, link = await accept_as_new_user(
                        tx, token, name, password_hash, address=request.client, now=now
                    )
                    _, headers = await self.sessions.begin(tx, user, request, is_complete=True, is_strong=False)
        if form.faults:
            return await self._page(request, form, name=name)
        response = see_other(organisation_base(Mode.LIVE, link.organisation_id or ""))
        response.headers.update(headers)
        return response

    async def _page(self, request: Request, form: Form, name: str = "") -> Response:
        session, form_token = await self.sessions.find(request), self.guard.issue(request)
        async with self.database.transaction() as tx:
            link = await require_link(tx, request.path("token"), INVITATION, self.clock())
            organisation = (await require_organisation(tx, link.organisation_id or "")).organisation
            is_known = await find_user_by_email(tx, link.email) is not None
        if session is not None and session.is_complete and session.user.email == link.email:
            state = "signed_in"
        else:
            state = "known" if is_known else "new"
        return self.renderer.page(
            request,
            "invitation.html",
            is_translated=False,
            status=422 if form.faults else 200,
            headers=form_token[1],
            form_token=form_token[0],
            faults=form.faults,
            organisation_name=organisation.name,
            role=link.role,
            email=link.email,
            name=name,
            state=state,
            token_in_url=request.path("token"),
        )
