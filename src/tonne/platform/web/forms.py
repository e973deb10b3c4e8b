"""Protection against cross-site request forgery: a form's token must match the one in the browser's cookie."""

import hmac
import re
import secrets

import msgspec

from tonne.platform.http.route import Request
from tonne.platform.settings.settings import Settings
from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_

FIELD = "form_token"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


class FormIn(msgspec.Struct):
    """Form fields as a browser sends them: the body of routes that `FormGuard` reads."""


class FormTokenInvalid(TonneError, kind=Kind.INVALID, code="form_token_invalid"):
    """The form was not sent from our page, or the browser refuses cookies.

    Reload the page and allow its cookie.
    """

    message = N_("This form was not sent from our page, or the page has expired: go back, reload it and try again.")


class FormGuard:
    """Another site can make a browser submit a form, but can neither read nor set this cookie."""

    def __init__(self, settings: Settings) -> None:
        is_https = settings.base_url.startswith("https://")
        self._name = "__Host-tonne" if is_https else "tonne"
        self._attributes = "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_https else "")

    def issue(self, request: Request) -> tuple[str, dict[str, str]]:
        """The token for a form, and the header that sets the cookie if the browser has none yet.

        The token is reused, so that forms in several tabs work.
        """
        token = request.cookie(self._name)
        if _TOKEN.fullmatch(token):
            return token, {}
        token = secrets.token_urlsafe(16)
        return token, {"Set-Cookie": f"{self._name}={token}; {self._attributes}"}

    def check(self, request: Request) -> dict[str, list[str]]:
        """The fields of the form. Raises FormTokenInvalid if it was not sent from our page."""
        fields = request.form()
        token, sent = request.cookie(self._name), (fields.get(FIELD) or [""])[0]
        from_elsewhere = request.headers.get(b"sec-fetch-site", b"same-origin") not in {b"same-origin", b"none"}
        if from_elsewhere or not _TOKEN.fullmatch(token) or not hmac.compare_digest(token.encode(), sent.encode()):
            raise FormTokenInvalid
        return fields
