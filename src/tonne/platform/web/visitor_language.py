"""Chooses the language of a page: the visitor's choice, then the browser's languages, then the merchant's default."""

import re
from functools import lru_cache
from urllib.parse import quote

from babel import Locale
from msgspec import Struct

from tonne.platform.http.route import Request
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import DEFAULT_LANGUAGE, LANGUAGES
from tonne.platform.web.translate import Translator, translator
from tonne.platform.web.visitor import locale_named

PARAMETER = "lang"
COOKIE = "lang"
_MAX_HEADER = 200
_PREFERENCE = re.compile(r"\s*([a-zA-Z]{2,3})(?:[-_]([a-zA-Z]{2}))?[^;,]*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")


class VisitorLanguage(Struct, frozen=True):
    """`locale` formats numbers and dates: the language with the visitor's region, such as `de_CH`."""

    code: str
    locale: Locale

    @property
    def translator(self) -> Translator:
        return translator(self.code)

    @property
    def direction(self) -> str:
        """The value of HTML's attribute `dir`."""
        return self.locale.text_direction


class LanguageLink(Struct, frozen=True):
    """The current page in another language."""

    code: str
    name: str
    href: str
    is_current: bool


def visitor_language(request: Request, default: str = DEFAULT_LANGUAGE) -> VisitorLanguage:
    """`default` is the merchant's language, for visitors whose browser names none of ours."""
    header = request.headers.get(b"accept-language", b"").decode("latin-1")[:_MAX_HEADER]
    return _choose(_asked_for(request) or request.cookie(COOKIE), header, default)


def choice_cookie(request: Request) -> str | None:
    """Keeps the language of `?lang=` until the browser is closed. None if the browser has this cookie already."""
    chosen = _asked_for(request)
    if not chosen or chosen == request.cookie(COOKIE):
        return None
    return f"{COOKIE}={chosen}; Path=/; SameSite=Lax"


def language_links(request: Request, current: str) -> list[LanguageLink]:
    """Links to the page itself. The address is the request's own, so it cannot lead to another site."""
    path, _, query = request.location.partition("?")
    # A path that begins with two slashes would be the address of another host.
    path = quote(f"/{path.lstrip('/')}", safe="/%:@!$&'()*+,;=-._~")
    others = [part for part in query.split("&") if part and part.partition("=")[0] != PARAMETER]
    return [
        LanguageLink(code, name, f"{path}?{'&'.join([*others, f'{PARAMETER}={code}'])}", code == current)
        for code, name in LANGUAGES.items()
    ]


def _asked_for(request: Request) -> str:
    try:
        codes = request.query_values(PARAMETER)
    except TonneError:
        # The endpoint reports the unreadable query string; its error page needs a language, too.
        return ""
    return codes[-1] if codes and codes[-1] in LANGUAGES else ""


@lru_cache(maxsize=1024)
def _choose(chosen: str, accept_language: str, default: str) -> VisitorLanguage:
    preferences = _preferences(accept_language)
    code = chosen if chosen in LANGUAGES else next((code for code, _ in preferences if code in LANGUAGES), default)
    code = code if code in LANGUAGES else DEFAULT_LANGUAGE
    regions = [region for language, region in preferences if language == code and region]
    return VisitorLanguage(code, locale_named(code, regions[0] if regions else ""))


def _preferences(accept_language: str) -> list[tuple[str, str]]:
    """Languages and regions of the header, the most wanted first."""
    found: list[tuple[float, str, str]] = []
    for part in accept_language.split(","):
        if match := _PREFERENCE.fullmatch(part):
            weight = float(match[3] or 1)
            if weight > 0:
                found.append((weight, match[1].lower(), (match[2] or "").upper()))
    found.sort(key=lambda each: -each[0])
    return [(code, region) for _, code, region in found]
