"""Renders templates: escaped, in the visitor's locale, with a strict content security policy. Protects their forms.

Against cross-site request forgery, the token of a form must match the one in the cookie of the browser.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from msgspec import Struct

from tonne.platform.http.errors import STATUS
from tonne.platform.http.route import Request, Response
from tonne.platform.http.static_files import StaticFile
from tonne.platform.settings.settings import Settings
from tonne.platform.settings.site_settings import LogoFile, contact_link, read_logo_file
from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import DEFAULT_LANGUAGE, LANGUAGES, N_
from tonne.platform.web import visitor
from tonne.platform.web.shown_errors import shown
from tonne.platform.web.translate import Translator, translator
from tonne.platform.web.visitor import VisitorLanguage, choice_cookie, language_links, visitor_language

_LABELS = {
    "terms_url": N_("Terms"),
    "privacy_url": N_("Privacy"),
    "imprint_url": N_("Imprint"),
    "refunds_url": N_("Refunds"),
}
_CONTACT = N_("Contact")


def legal_links(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Labels, to be translated, with their URLs. Only those that are set."""
    named = [(label, getattr(settings, name)) for name, label in _LABELS.items()]
    return tuple((label, url) for label, url in named if url)


class SiteFrame(Struct, frozen=True):
    """`links` are labels, to be translated, with their URLs. Only those that are set."""

    links: tuple[tuple[str, str], ...]
    contact_url: str
    logo: LogoFile | None

    @classmethod
    def of(cls, settings: Settings) -> "SiteFrame":
        contact = contact_link(settings)
        links = (*legal_links(settings), *([(_CONTACT, contact)] if contact else []))
        return cls(links, contact, read_logo_file(settings))

    @property
    def logo_url(self) -> str | None:
        """None: pages show the built-in mark and the seller's name."""
        return None if self.logo is None else f"/logo?v={sha256(self.logo.content).hexdigest()[:12]}"


_TITLES = {
    Kind.NOT_FOUND: N_("Page not found"),
    Kind.METHOD_NOT_ALLOWED: N_("That page can't be opened this way"),
    Kind.INVALID: N_("That didn't work"),
    Kind.CONFLICT: N_("That isn't possible right now"),
    Kind.TOO_LARGE: N_("That is too much at once"),
    Kind.RATE_LIMITED: N_("Too many requests"),
    Kind.UNAVAILABLE: N_("Temporarily unavailable"),
}
_OTHER_TITLE = N_("Something went wrong")
# By error code.
_TEXTS = {
    "route_not_found": N_(
        "There is no page at this address. It may be misspelt or incomplete: if it comes from a mail, open the link in "
        "the mail again."
    ),
    "asset_not_found": N_("There is no file at this address."),
    "image_not_found": N_("There is no picture at this address."),
    "method_not_allowed": N_("Go back to the page you came from, reload it and try again."),
    "rate_limited": N_("Too many requests came from your network. Wait a minute, then reload the page."),
    "body_too_large": N_("What you sent is too large. Go back and send less text or a smaller file."),
    "service_unavailable": N_(
        "We can't answer right now. Nothing is lost: wait a moment, then reload the page. If you were paying, you are "
        "charged at most once."
    ),
    "service_held": N_("We are working on the service. Nothing is lost: try again in a few minutes."),
    "internal_error": N_("Something went wrong on our side. Reload the page in a moment."),
}
# Their messages always name paths and methods.
_FOR_PROGRAMS = {"route_not_found", "method_not_allowed", "internal_error"}


def error_title(refusal: TonneError, _: Translator) -> str:
    return _(_TITLES.get(refusal.kind, _OTHER_TITLE))


def error_text(refusal: TonneError, _: Translator) -> str:
    """A message that was written for this case is better than the text of its code, unless it is for programs."""
    text = _TEXTS.get(refusal.code)
    is_general = str(refusal) == refusal.message or refusal.code in _FOR_PROGRAMS
    return _(text) if text is not None and is_general else shown(refusal, _)


HTML = b"text/html; charset=utf-8"
# No inline scripts or styles, no other hosts, no framing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# For a page that shows another page of ours in a frame, and for the page in it.
FRAMING_POLICY = f"{POLICY}; frame-src 'self'"
FRAMED_POLICY = POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'").replace(
    "img-src 'self'", "img-src 'self' data:"
)
# The pages of the dashboard and of the operator.
_ENGLISH_PAGES = ("/dashboard", "/operator")


class Renderer:
    def __init__(self, settings: Settings, packages: Sequence[str] = ()) -> None:
        """`packages` are the Python packages that have a folder `templates`, in addition to `tonne.platform.web`."""
        self._seller_name = settings.seller_name
        self._base_url = settings.base_url
        self.frame = SiteFrame.of(settings)
        self._templates = _environment(tuple(packages))

    def page(
        self,
        request: Request,
        template: str,
        /,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        default_language: str = DEFAULT_LANGUAGE,
        is_translated: bool = True,
        **values: Any,
    ) -> Response:
        """Not cacheable unless `headers` say otherwise.

        `default_language` is for visitors whose browser names none of our languages. A page that is not translated
        is English, with numbers and dates in the browser's locale.
        """
        language = visitor_language(request, default_language) if is_translated else _english(request)
        context = {
            "locale": language.locale,
            "translator": language.translator,
            "language": language,
            "language_links": language_links(request, language.code) if is_translated else [],
            "seller_name": self._seller_name,
            "base_url": self._base_url,
            "frame": self.frame,
            "test_mode": False,
            "refresh_s": None,
        }
        pieces = self._templates.get_template(template).generate({**context, **values})
        all_headers = {
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
            # A shared cache must not show a page in the language of another visitor.
            "Vary": "Accept-Language, Cookie",
            "Content-Language": language.code,
            **(headers or {}),
        }
        cookie = choice_cookie(request) if is_translated else None
        if cookie is None:
            return Response(b"", status, HTML, all_headers, pieces=pieces)
        # A shared cache must not give the cookie to other visitors.
        all_headers["Cache-Control"] = "no-store"
        return Response(b"", status, HTML, all_headers, cookies=[cookie], pieces=pieces)

    def error(self, refusal: TonneError, request_id: str, request: Request) -> Response:
        """Render an error as a page. Internal errors show the request id."""
        status = STATUS[refusal.kind]
        # Also people who cannot sign in are told so in their language.
        is_limited = refusal.kind is Kind.RATE_LIMITED
        is_translated = is_limited or not request.location.startswith(_ENGLISH_PAGES)
        _ = visitor_language(request).translator if is_translated else translator(DEFAULT_LANGUAGE)
        return self.page(
            request,
            "error.html",
            status=status,
            headers=refusal.headers,
            is_translated=is_translated,
            status_code=status,
            title=error_title(refusal, _),
            message=error_text(refusal, _),
            request_id=request_id if status >= 500 else None,
        )


@cache
def _environment(packages: tuple[str, ...]) -> Environment:
    """Compiled templates are kept: compiling one takes longer than rendering it."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("tonne.platform.web", *packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    templates.policies["ext.i18n.trimmed"] = True
    templates.install_gettext_callables(_gettext, _ngettext, newstyle=True, pgettext=_pgettext)  # type: ignore[attr-defined]
    for format_ in (
        visitor.money,
        visitor.compact_money,
        visitor.tonnes,
        visitor.tonnes_column,
        visitor.rounded,
        visitor.exact,
        visitor.number,
        visitor.percent,
        visitor.day,
        visitor.month,
        visitor.moment,
    ):
        templates.filters[format_.__name__] = _localised(format_)
    templates.filters["grams"] = visitor.grams
    templates.globals.update(asset=asset_url, languages=LANGUAGES)
    return templates


def see_other(address: str) -> Response:
    """Redirect after a form, so that reloading the next page does not submit it again."""
    return Response(b"", 303, headers={"Location": address, "Cache-Control": "no-store"})


def asset(name: str) -> StaticFile | None:
    """A static file."""
    return _files().get(name)


def asset_url(name: str) -> str:
    """It changes with the content, so browsers may keep the file for ever."""
    return f"/assets/{name}?v={_files()[name].digest}"


@cache
def _files() -> dict[str, StaticFile]:
    folder = resources.files("tonne.platform.web") / "static"
    return {file.name: StaticFile.of(file.name, file.read_bytes()) for file in folder.iterdir()}


def _english(request: Request) -> VisitorLanguage:
    header = request.headers.get(b"accept-language", b"").decode("latin-1")
    return VisitorLanguage(DEFAULT_LANGUAGE, visitor.locale_of(header))


@pass_context
def _gettext(context: Context, message: str) -> str:
    return str(context["translator"].text(message))


@pass_context
def _pgettext(context: Context, meaning: str, message: str) -> str:
    return str(context["translator"].text_of(meaning, message))


@pass_context
def _ngettext(context: Context, one: str, many: str, n: int) -> str:
    return str(context["translator"].plural_text(one, many, n))


def _localised(format_: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that passes the visitor's locale as the last argument."""

    @pass_context
    def template_filter(context: Context, *values: Any) -> Any:
        return format_(*values, context["locale"])

    return template_filter


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
