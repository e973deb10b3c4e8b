"""The pages before the dashboard: sign-in, also at another provider, second factor, sign-out, new password."""

import hmac
import json
import secrets
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from tonne.apps.dashboard.viewer import SIGN_IN, DashboardPageNotFound, Form, Viewer, safe_next, second_step
from tonne.platform.db.database import Database
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Clock
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.render import FIELD, FormGuard, Renderer, see_other
from tonne.selling.users.errors import CodeRefused, PasskeyRefused, PasskeysUnavailable, PasswordInvalid, SignInRefused
from tonne.selling.users.link_store import PASSWORD_RESET
from tonne.selling.users.links import ChangePassword, require_link
from tonne.selling.users.model import UserSession
from tonne.selling.users.oidc.oidc_provider import OidcAttempt, OidcGateway, OidcRefused, OidcUnavailable
from tonne.selling.users.oidc.oidc_sign_in import OidcSignIn
from tonne.selling.users.password_requests import insert_request
from tonne.selling.users.second_factor.passkey_domain import PasskeyDomain
from tonne.selling.users.sign_in import Sessions, SignIn

# Mails with a link for a new password: per client 5 at once, then one every 5 minutes.
RESETS = 5
RESETS_PER_S = 1 / 300
_TOO_MANY = N_("Too many requests for a new password. Wait a few minutes, then try again.")
_NOTICE_CHANGED = "Your new password is set. Sign in with it."
_NOTICE_AGAIN = "You signed in more than 30 minutes ago. To make this change, sign in again, then repeat it."
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
        again, changed = request.query("again", "changed")
        if session is not None and session.is_complete and not again:
            return see_other(goal)
        notice = _NOTICE_CHANGED if changed else _NOTICE_AGAIN if again else None
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
                session, cookies = await self.sign_in.by_password(request, email, password)
            except SignInRefused as error:
                form.fail_with(error)
            else:
                place = goal if session.is_complete else second_step(goal)
                return _go(place, *cookies)
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
            _, cookies = await self.sign_in.by_passkey(request, form.raw(FIELD), form.raw("credential"))
        except (PasskeyRefused, PasskeysUnavailable, SignInRefused) as error:
            form.fail_with(error)
            return self.entrance(request, form, goal)
        return _go(goal, *cookies)

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
            _, cookies = await self.sign_in.by_code(request, session, form.value("code"))
        except CodeRefused as error:
            form.fail("code", str(error))
            return self._second_step(request, form, session, goal)
        return _go(goal, *cookies)

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
            _, cookies = await self.sign_in.by_second_passkey(request, session, form.raw("credential"))
        except (PasskeyRefused, PasskeysUnavailable) as error:
            form.fail_with(error)
            return self._second_step(request, form, session, goal)
        return _go(goal, *cookies)

    async def sign_out(self, viewer: Viewer, _: Form) -> Response:
        cookie = await self.database.commit(self.sessions.sign_out, viewer.session, actor=viewer.actor)
        return _go(SIGN_IN, cookie)

    async def show_reset(self, request: Request) -> Response:
        """The form that asks for a link to a new password."""
        return self._page(request, "password_ask.html", Form(), email="", is_sent=False)

    async def ask_for_reset(self, request: Request) -> Response:
        """The answer and its time are the same for every address: strangers cannot learn who has an account."""
        form = Form(self.guard.check(request))
        email = form.email()
        if not form.faults:
            self.resets.require(request.limited_as, message=_TOO_MANY)
            await self.database.run(insert_request, email, str(_stranger(request)), self.sessions.now())
        return self._page(request, "password_ask.html", form, email=email, is_sent=not form.faults)

    async def show_new_password(self, request: Request) -> Response:
        """The form behind the link in the mail. Raises LinkExpired."""
        token = request.path("token")
        await self.database.commit(require_link, token, PASSWORD_RESET, self.sessions.now())
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


def _go(place: str, *cookies: str) -> Response:
    response = see_other(place)
    response.cookies = cookies
    return response


ATTEMPT_LASTS = timedelta(minutes=10)
# What a sealed attempt belongs to: it opens nowhere else.
_OWNER = "oidc"
_EXPIRED = "This sign-in has expired or was begun in another browser. Start again."
_CANCELLED = "You did not sign in at the provider. Try again, or sign in with your password."


class OidcPage:
    """`gateway` is None if the operator has set no provider: the pages then do not exist."""

    def __init__(
        self,
        gateway: OidcGateway | None,
        sign_in: SignIn,
        by_oidc: OidcSignIn,
        box: SecretBox,
        *,
        entrance: SignInPage,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._gateway = gateway
        self._sign_in = sign_in
        self._by_oidc = by_oidc
        self._box = box
        self._entrance = entrance
        self._clock = clock
        is_https = settings.base_url.startswith("https://")
        self._name = "__Host-tonne_oidc" if is_https else "tonne_oidc"
        self._attributes = "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_https else "")

    async def start(self, request: Request) -> Response:
        """To the page of the provider."""
        gateway, goal = self._require_gateway(), safe_next(request.query("next")[0])
        attempt = OidcAttempt(*(secrets.token_urlsafe(32) for _ in range(3)))
        try:
            self._sign_in.limit_client(request)
            response = see_other(await gateway.sign_in_url(attempt))
        except OidcUnavailable as error:
            return self._fail(request, error, goal)
        expires = (self._clock() + ATTEMPT_LASTS).timestamp()
        kept = json.dumps({"attempt": asdict(attempt), "goal": goal, "expires": expires})
        response.headers["Set-Cookie"] = self._cookie(self._box.seal(kept, _OWNER).hex(), ATTEMPT_LASTS)
        return response

    async def finish(self, request: Request) -> Response:
        """Back from the provider, which has added a code or an error to the address."""
        gateway = self._require_gateway()
        state, code, error = request.query("state", "code", "error")
        goal = "/dashboard"
        try:
            attempt, goal = self._read(request, state or "")
            identity = await gateway.redeem(attempt, _require_code(code, error))
            session, cookies = await self._by_oidc.begin(request, identity)
        except (OidcRefused, OidcUnavailable, SignInRefused) as refusal:
            return self._fail(request, refusal, goal)
        return _go(goal if session.is_complete else second_step(goal), *cookies)

    def _read(self, request: Request, state: str) -> tuple[OidcAttempt, str]:
        """Raises OidcRefused if this browser has not begun this attempt."""
        try:
            kept = json.loads(self._box.open(bytes.fromhex(request.cookie(self._name)), _OWNER))
        except (ValueError, SecretUnreadable) as error:
            raise OidcRefused(_EXPIRED) from error
        attempt = OidcAttempt(**kept["attempt"])
        is_ours = hmac.compare_digest(attempt.state.encode(), state.encode())
        if not is_ours or kept["expires"] <= self._clock().timestamp():
            raise OidcRefused(_EXPIRED)
        return attempt, safe_next(kept["goal"])

    def _fail(self, request: Request, error: TonneError, goal: str) -> Response:
        form = Form()
        form.fail_with(error)
        return self._entrance.entrance(request, form, goal)

    def _require_gateway(self) -> OidcGateway:
        if self._gateway is None:
            raise DashboardPageNotFound("There is no such page: no sign-in provider is set up.")
        return self._gateway

    def _cookie(self, value: str, lasts: timedelta) -> str:
        return f"{self._name}={value}; {self._attributes}; Max-Age={int(lasts.total_seconds())}"


def _require_code(code: str | None, error: str | None) -> str:
    """Raises OidcRefused if the provider sends an error instead of a code."""
    if error == "access_denied":
        raise OidcRefused(_CANCELLED)
    if error or not code:
        raise OidcRefused
    return code
