"""The user's own page: passkeys, authenticator app, password, sessions. And the page behind an invitation's link."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from tonne.apps.dashboard.agents import browser_text
from tonne.apps.dashboard.layout import PageLayout
from tonne.apps.dashboard.viewer import SECOND_FACTOR_NEEDED, Form, Viewer, operator_base, organisation_base
from tonne.platform.db.database import Connection, Database
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Clock, Mode
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users.errors import CodeRefused, PasswordInvalid, SecondFactorNeeded, SignInRefused, SignInTooOld
from tonne.selling.users.link_store import INVITATION
from tonne.selling.users.links import ChangePassword, accept_as_new_user, accept_as_user, require_link
from tonne.selling.users.passwords import Passwords, check_new_password
from tonne.selling.users.personal_tokens import MAX_DAYS, list_tokens, make_token, revoke_personal_token
from tonne.selling.users.second_factor.passkey_store import list_passkeys
from tonne.selling.users.second_factor.passkeys import Passkeys, find_passkey
from tonne.selling.users.second_factor.second_factor import SecondFactor, TotpSetup, turn_off_app
from tonne.selling.users.sign_in import Sessions, SignIn, is_recent
from tonne.selling.users.store import count_recovery_codes, find_user_by_email, list_memberships

YOU = "/dashboard/you"
PASSKEY_NAME_MISSING = "Enter a name, such as the name of your device."


class YouPage(Struct, frozen=True):
    database: Database
    layout: PageLayout
    sessions: Sessions
    sign_in: SignIn
    second_factor: SecondFactor
    passkeys: Passkeys
    change_password: ChangePassword

    async def home(self, viewer: Viewer) -> Response:
        """To the user's first organisation, or to the operator area. All that the demo has is in test mode."""
        mode = Mode.TEST if viewer.user.is_demo else Mode.LIVE
        memberships = await self.database.run(list_memberships, viewer.user.id)
        if memberships:
            return see_other(organisation_base(mode, memberships[0].organisation_id))
        return see_other(operator_base(mode) if viewer.user.is_operator else YOU)

    async def show(self, viewer: Viewer) -> Response:
        return await self._page(viewer)

    async def replace_password(self, viewer: Viewer, form: Form) -> Response:
        old, new = form.raw("old_password"), form.raw("password")
        if not old:
            form.fail("old_password", "Enter your current password.")
        if new != form.raw("repeat"):
            form.fail("repeat", "The two passwords differ. Enter the same password twice.")
        if not form.faults:
            try:
                self.sign_in.limit_attempts(viewer.user)
                await self.change_password.by_password(
                    viewer.user, old, new, but_session=viewer.session.id, actor=viewer.actor
                )
            except (SignInRefused, PasswordInvalid, RateLimited) as error:
                form.fail_with(error)
            else:
                return see_other(f"{YOU}?done=password")
        return await self._page(viewer, form)

    async def set_up(self, viewer: Viewer, _: Form) -> Response:
        """Show the QR code."""
        if viewer.user.totp_enabled:
            return see_other(YOU)
        return await self._page(viewer, setup=await self._prepare(viewer))

    async def enable(self, viewer: Viewer, form: Form) -> Response:
        try:
            self.sign_in.limit_attempts(viewer.user)
            async with self.database.transaction() as tx:
                codes = await self.second_factor.enable(
                    tx, viewer.user, form.value("code"), but_session=viewer.session.id, actor=viewer.actor
                )
        except (CodeRefused, RateLimited) as error:
            if viewer.user.totp_enabled:
                return see_other(YOU)
            form.fail("code", str(error))
            return await self._page(viewer, form, setup=await self._prepare(viewer))
        return await self._page(viewer, codes=codes, is_enabled=True)

    async def renew_codes(self, viewer: Viewer, form: Form) -> Response:
        try:
            self.sign_in.limit_attempts(viewer.user)
            async with self.database.transaction() as tx:
                await self._confirm(tx, viewer, form.value("code"))
                codes = await self.second_factor.renew_codes(tx, viewer.user, actor=viewer.actor)
        except (CodeRefused, RateLimited) as error:
            form.fail("code" if viewer.user.totp_enabled else "", str(error))
            return await self._page(viewer, form)
        return await self._page(viewer, codes=codes)

    async def disable(self, viewer: Viewer, form: Form) -> Response:
        try:
            self.sign_in.limit_attempts(viewer.user)
            async with self.database.transaction() as tx:
                await self.sign_in.accept_code(tx, viewer.user, form.value("code"))
                await turn_off_app(tx, viewer.user, by=viewer.actor.at(self.sessions.now()))
        except (CodeRefused, SecondFactorNeeded, RateLimited) as error:
            form.fail("code", str(error))
            return await self._page(viewer, form)
        return see_other(f"{YOU}?done=second_factor_off")

    async def passkey_options(self, viewer: Viewer, _: Form) -> Response:
        """What a new passkey must sign, as JSON for the page's script."""
        if not is_recent(viewer.session, self.sessions.now()):
            raise SignInTooOld
        return Response((await self.passkeys.registration_options(viewer.session)).encode())

    async def add_passkey(self, viewer: Viewer, form: Form) -> Response:
        name = form.text("passkey_name", PASSKEY_NAME_MISSING, longest=100)
        if not form.faults:
            with form.catch():
                codes = await self.passkeys.register(viewer.session, form.raw("credential"), name, actor=viewer.actor)
                return await self._page(viewer, codes=codes) if codes else see_other(f"{YOU}?done=passkey")
        return await self._page(viewer, form)

    async def rename_passkey(self, viewer: Viewer, form: Form) -> Response:
        name = form.text("passkey_name", PASSKEY_NAME_MISSING, longest=100)
        if form.faults:
            return await self.show_passkey(viewer, form)
        await self.passkeys.rename(viewer.user, viewer.request.path("passkey_id"), name, actor=viewer.actor)
        return see_other(f"{YOU}?done=passkey_renamed")

    async def remove_passkey(self, viewer: Viewer, form: Form) -> Response:
        try:
            await self.passkeys.remove(viewer.user, viewer.request.path("passkey_id"), actor=viewer.actor)
        except SecondFactorNeeded as error:
            form.fail_with(error)
            return await self.show_passkey(viewer, form)
        return see_other(f"{YOU}?done=passkey_removed")

    async def end_session(self, viewer: Viewer, _: Form) -> Response:
        async with self.database.transaction() as tx:
            await self.sessions.end(tx, viewer.user, viewer.request.path("session_id"), actor=viewer.actor)
        return see_other(f"{YOU}?done=session")

    async def end_other_sessions(self, viewer: Viewer, _: Form) -> Response:
        await self.database.commit(self.sessions.end_others, viewer.session, actor=viewer.actor)
        return see_other(f"{YOU}?done=sessions")

    async def make_token(self, viewer: Viewer, form: Form) -> Response:
        """Show the token once. Only for operators who signed in with a second factor: others cannot use it."""
        if not (viewer.user.is_operator and viewer.session.is_strong):
            return see_other(SECOND_FACTOR_NEEDED)
        name = form.text("token_name", "Enter a name, such as the name of your computer.", longest=100)
        days = form.value("days")
        if not (days.isascii() and days.isdigit() and 1 <= int(days[:4]) <= MAX_DAYS):
            form.fail("days", f"Enter a number of days from 1 to {MAX_DAYS}.")
        if form.faults:
            return await self._page(viewer, form)
        by = viewer.actor.at(self.sessions.now())
        token = await self.database.commit(make_token, viewer.user, name, int(days), by=by)
        return await self._page(viewer, token=token)

    async def revoke_token(self, viewer: Viewer, _: Form) -> Response:
        token_id, by = viewer.request.path("token_id"), viewer.actor.at(self.sessions.now())
        await self.database.commit(revoke_personal_token, viewer.user, token_id, by=by)
        return see_other(f"{YOU}?done=token_revoked")

    async def _confirm(self, tx: Connection, viewer: Viewer, code: str) -> None:
        """By a code of the app. Without an app, the recent sign-in with a passkey is enough."""
        if viewer.user.totp_enabled or not viewer.session.is_strong:
            await self.sign_in.accept_code(tx, viewer.user, code)

    async def show_passkey(self, viewer: Viewer, form: Form | None = None) -> Response:
        """To rename it, or to confirm its removal."""
        form = form or Form()
        async with self.database.connection() as connection:
            passkey = await find_passkey(connection, viewer.user, viewer.request.path("passkey_id"))
            is_last = len(await list_passkeys(connection, viewer.user.id)) == 1 and not viewer.user.totp_enabled
            memberships = await list_memberships(connection, viewer.user.id)
        return self.layout.page(
            viewer,
            "passkey.html",
            form,
            passkey=passkey,
            is_last=is_last,
            memberships=memberships,
            passkey_name=form.raw("passkey_name") if "passkey_name" in form.faults else passkey.name,
        )

    async def _prepare(self, viewer: Viewer) -> TotpSetup:
        return await self.database.commit(self.second_factor.prepare, viewer.user)

    async def _page(
        self,
        viewer: Viewer,
        form: Form | None = None,
        *,
        setup: TotpSetup | None = None,
        codes: Sequence[str] = (),
        is_enabled: bool | None = None,
        token: str = "",
    ) -> Response:
        async with self.database.connection() as connection:
            found = await self.sessions.list_of(connection, viewer.user.id)
            values: dict[str, Any] = {
                "sessions": [(session, browser_text(session.agent)) for session in found],
                "memberships": await list_memberships(connection, viewer.user.id),
                "passkeys": await list_passkeys(connection, viewer.user.id),
                "passkey_domain": self.passkeys.domain,
                "passkey_name": (form or Form()).value("passkey_name") or _device(viewer.request),
                "tokens": await list_tokens(connection, viewer.user.id, self.sessions.now()),
                "token_name": (form or Form()).value("token_name"),
                "days": (form or Form()).value("days") or MAX_DAYS,
                "codes_left": await count_recovery_codes(connection, viewer.user.id),
            }
        shown = None if setup is None else {"secret": setup.secret, "qr_svg": Markup(setup.qr_svg)}  # noqa: S704 - ours
        is_on = viewer.user.totp_enabled if is_enabled is None else is_enabled
        return self.layout.page(
            viewer,
            "you.html",
            form,
            setup=shown,
            codes=codes,
            is_on=is_on,
            new_token=token,
            **values,
        )


def _device(request: Request) -> str:
    """A name for a new passkey, to be changed by the user."""
    return browser_text(request.headers.get(b"user-agent", b"").decode("latin-1"))


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
            link = await self.database.commit(accept_as_user, token, session.user, address=request.client, now=now)
            return see_other(organisation_base(Mode.LIVE, link.organisation_id or ""))
        link = await self.database.commit(require_link, token, INVITATION, now)
        name, password = form.text("name", "Enter your name."), form.raw("password")
        with form.catch():
            check_new_password(password, link.email)
        if password != form.raw("repeat"):
            form.fail("repeat", "The two passwords differ. Enter the same password twice.")
        if not form.faults:
            password_hash = await self.passwords.hash(password, request.limited_as)
            with form.catch():
                async with self.database.transaction() as tx:
                    user, link = await accept_as_new_user(
                        tx, token, name, password_hash, address=request.client, now=now
                    )
                    _, cookies = await self.sessions.begin(tx, user, request, is_complete=True, is_strong=False)
        if form.faults:
            return await self._page(request, form, name=name)
        response = see_other(organisation_base(Mode.LIVE, link.organisation_id or ""))
        response.cookies = cookies
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
