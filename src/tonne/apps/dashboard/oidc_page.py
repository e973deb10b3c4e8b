"""Signing in at another provider: leaving for it, and coming back."""

import hmac
import json
import secrets
from datetime import timedelta

from msgspec.structs import asdict

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.sign_in_page import SignInPage
from tonne.apps.dashboard.viewer import DashboardPageNotFound, safe_next, second_step
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.route import Request, Response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.users.errors import SignInRefused
from tonne.selling.users.oidc.oidc import OidcAttempt, OidcGateway, OidcRefused, OidcUnavailable
from tonne.selling.users.oidc.oidc_sign_in import OidcSignIn
from tonne.selling.users.sign_in import SignIn

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
        except (OidcUnavailable, RateLimited) as error:
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
            session, headers = await self._by_oidc.begin(request, identity)
        except (OidcRefused, OidcUnavailable, SignInRefused) as refusal:
            return self._fail(request, refusal, goal)
        response = see_other(goal if session.is_complete else second_step(goal))
        response.headers.update(headers)
        return response

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
