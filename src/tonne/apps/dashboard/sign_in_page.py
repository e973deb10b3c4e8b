"""The pages before the dashboard: sign-in, second factor, sign-out and the way to a new password."""

from typing import Any

from msgspec import Struct, field

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.viewer import SIGN_IN, Viewer, safe_next, second_step
from tonne.platform.db.database import Database
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Actor, ActorKind
from tonne.platform.web.render import FIELD, FormGuard, Renderer, see_other
from tonne.selling.users.change_password import ChangePassword
from tonne.selling.users.errors import CodeRefused, PasskeyRefused, PasskeysUnavailable, PasswordInvalid, SignInRefused
from tonne.selling.users.link_store import PASSWORD_RESET
from tonne.selling.users.links import require_link
from tonne.selling.users.model import UserSession
from tonne.selling.users.second_factor.passkey_domain import PasskeyDomain
from tonne.selling.users.sessions import Sessions
from tonne.selling.users.sign_in import SignIn

# Mails with a link for a new password: per client 5 at once, then one every 5 minutes.
RESETS = 5
RESETS_PER_S = 1 / 300
_TOO_MANY = "Too many requests for a new password. Wait a few minutes, then try again."
_REPEAT_DIFFERS = "The two passwords differ. Enter the same password twice."


class SignInPage(Struct, frozen=True):
    database: Database
    renderer: Renderer
    guard: FormGuard
    sessions: Sessions
    sign_in: SignIn
    change_password: ChangePassword
    passkey_domain: PasskeyDomain
    # Empty without a provider.
    oidc_name: str
    resets: TokenBuckets = field(default_factory=lambda: TokenBuckets("password_resets", RESETS_PER_S, RESETS))

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return *self.sign_in.limits, self.resets

    async def show(self, request: Request) -> Response:
        """The form for e-mail address and password."""
        goal = safe_next(request.query("next")[0])
        session = await self.sessions.find(request)
        if session is not None and session.is_complete:
            return see_other(goal)
        notice = "Your new password is set. Sign in with it." if request.query("changed")[0] else None
        return self.entrance(request, Form(), goal, notice=notice)

    async def submit(self, request: Request) -> Response:
        form = Form(self.guard.check(request))
        email, password, goal = form.value("email"), form.raw("password"), safe_next(form.value("next"))
        if not email:
            form.fail("email", "Enter your e-mail address.")
        if not password:
            form.fail("password", "Enter your password.")
        if not form.faults:
            try:
                session, headers = await self.sign_in.by_password(request, email, password)
            except (SignInRefused, RateLimited) as error:
                form.fail_with(error)
            else:
                place = goal if session.is_complete else second_step(goal)
                return _go(place, headers)
        return self.entrance(request, form, goal, email)

    async def passkey_options(self, request: Request) -> Response:
        """What a passkey must sign to sign in with it alone, as JSON for the page's script."""
        fields = self.guard.check(request)
        return Response((await self.sign_in.passkey_options(request, fields[FIELD][0])).encode())

    async def submit_passkey(self, request: Request) -> Response:
        """Sign in with a passkey alone."""
        form = Form(self.guard.check(request))
        goal = safe_next(form.value("next"))
        try:
            _, headers = await self.sign_in.by_passkey(request, form.raw(FIELD), form.raw("credential"))
        except (PasskeyRefused, PasskeysUnavailable, SignInRefused, RateLimited) as error:
            form.fail_with(error)
            return self.entrance(request, form, goal)
        return _go(goal, headers)

    async def show_code(self, request: Request) -> Response:
        """The form for the second factor."""
        session = await self.sessions.find(request)
        if session is None or session.is_complete:
            return see_other(SIGN_IN)
        return self._second_step(request, Form(), session, safe_next(request.query("next")[0]))

    async def submit_code(self, request: Request) -> Response:
        form = Form(self.guard.check(request))
        session = await self.sessions.find(request)
        if session is None or session.is_complete:
            return see_other(SIGN_IN)
        goal = safe_next(form.value("next"))
        try:
            _, headers = await self.sign_in.by_code(request, session, form.value("code"))
        except (CodeRefused, RateLimited) as error:
            form.fail("code", str(error))
            return self._second_step(request, form, session, goal)
        return _go(goal, headers)

    async def second_passkey_options(self, request: Request) -> Response:
        """What one of the user's passkeys must sign after the password, as JSON for the page's script."""
        fields, session = self.guard.check(request), await self.sessions.find(request)
        if session is None or session.is_complete:
            raise PasskeyRefused("This page has expired. Reload it and sign in again.")
        return Response((await self.sign_in.passkey_options(request, fields[FIELD][0], session)).encode())

    async def submit_second_passkey(self, request: Request) -> Response:
        """A passkey as the second factor."""
        form = Form(self.guard.check(request))
        session = await self.sessions.find(request)
        if session is None or session.is_complete:
            return see_other(SIGN_IN)
        goal = safe_next(form.value("next"))
        try:
            _, headers = await self.sign_in.by_second_passkey(request, session, form.raw("credential"))
        except (PasskeyRefused, PasskeysUnavailable, RateLimited) as error:
            form.fail_with(error)
            return self._second_step(request, form, session, goal)
        return _go(goal, headers)

    async def sign_out(self, viewer: Viewer, _: Form) -> Response:
        async with self.database.transaction() as tx:
            headers = await self.sessions.sign_out(tx, viewer.session, actor=viewer.actor)
        return _go(SIGN_IN, headers)

    async def show_reset(self, request: Request) -> Response:
        """The form that asks for a link to a new password."""
        return self._page(request, "password_ask.html", Form(), email="", is_sent=False)

    async def ask_for_reset(self, request: Request) -> Response:
        """The answer is the same for every address: strangers cannot learn who has an account."""
        form = Form(self.guard.check(request))
        email = form.email()
        if not form.faults:
            try:
                self.resets.require(request.limited_as, message=_TOO_MANY)
                await self.change_password.ask_for_link(email, actor=_stranger(request))
            except RateLimited as error:
                form.fail_with(error)
        return self._page(request, "password_ask.html", form, email=email, is_sent=not form.faults)

    async def show_new_password(self, request: Request) -> Response:
        """The form behind the link in the mail. Raises LinkExpired."""
        token = request.path("token")
        async with self.database.transaction() as tx:
            await require_link(tx, token, PASSWORD_RESET, self.sessions.now())
        return self._page(request, "password_new.html", Form(), token_in_url=token)

    async def set_new_password(self, request: Request) -> Response:
        form = Form(self.guard.check(request))
        token, password = request.path("token"), form.raw("password")
        if password != form.raw("repeat"):
            form.fail("repeat", _REPEAT_DIFFERS)
        if not form.faults:
            try:
                await self.change_password.by_link(token, password, actor=_stranger(request))
            except PasswordInvalid as error:
                form.fail_with(error)
            else:
                return see_other(f"{SIGN_IN}?changed=1")
        return self._page(request, "password_new.html", form, token_in_url=token)

    def entrance(
        self, request: Request, form: Form, goal: str, email: str = "", *, notice: str | None = None
    ) -> Response:
        """The form for e-mail address and password, with other ways to sign in."""
        return self._page(
            request,
            "sign_in.html",
            form,
            goal=goal,
            oidc_name=self.oidc_name,
            email=email,
            notice=notice,
            passkey_domain=self.passkey_domain,
        )

    def _second_step(self, request: Request, form: Form, session: UserSession, goal: str) -> Response:
        return self._page(
            request,
            "sign_in_code.html",
            form,
            goal=goal,
            user=session.user,
            passkey_domain=self.passkey_domain,
        )

    def _page(self, request: Request, template: str, form: Form, **values: Any) -> Response:
        token, headers = self.guard.issue(request)
        status = 422 if form.faults else 200
        return self.renderer.page(
            request,
            template,
            is_translated=False,
            status=status,
            headers=headers,
            form_token=token,
            faults=form.faults,
            **values,
        )


def _stranger(request: Request) -> Actor:
    """Anybody who has the link or knows the address."""
    return Actor(ActorKind.USER, "not signed in", request.client)


def _go(place: str, headers: dict[str, str]) -> Response:
    response = see_other(place)
    response.headers.update(headers)
    return response
