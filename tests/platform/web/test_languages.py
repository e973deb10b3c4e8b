"""The language of a page: chosen, kept, and never mixed up by caches."""

import httpx
import pytest

from tonne.platform.http.route import Request
from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import LANGUAGES, LanguageCode
from tonne.platform.values.message_values import MassValue, MoneyValue, NamesValue
from tonne.platform.web.shown_errors import shown
from tonne.platform.web.translate import translator
from tonne.platform.web.visitor import choice_cookie, language_links, visitor_language

SWITCH = 'class="languages"'


class _Refused(TonneError, kind=Kind.INVALID, code="test_refused"):
    message = "No."


def visit(path: str = "/verify", query: str = "", language: str = "", cookie: str = "") -> Request:
    return Request.without_body(
        path, query.encode(), {b"accept-language": language.encode(), b"cookie": cookie.encode()}
    )


@pytest.mark.parametrize(
    ("query", "cookie", "header", "default", "found"),
    [
        ("", "", "", "en", "en en"),
        ("", "", "", "it", "it it"),
        ("", "", "de-CH, fr;q=0.9", "en", "de de_CH"),
        ("", "", "fr;q=0.3, nl-BE;q=0.8, de;q=0", "en", "nl nl_BE"),
        ("", "", "sv-SE, en-GB;q=0.5", "de", "en en_GB"),
        ("", "", "ar", "de", "de de"),
        ("", "", "ar, fa;q=0.5", "en", "en en"),
        ("", "a=1; lang=es", "de-AT", "en", "es es"),
        ("lang=de&x=1", "lang=es", "de-AT", "en", "de de_AT"),
        ("lang=xx", "lang=yy", "rubbish;;,", "zz", "en en"),
        ("lang=%ff", "", "nl", "en", "nl nl"),
        ("lang=de&lang=fr", "", "", "en", "fr fr"),
    ],
)
def test_the_choice_comes_first_then_the_browser_then_the_merchant(
    query: str, cookie: str, header: str, default: str, found: str
) -> None:
    language = visitor_language(visit(query=query, cookie=cookie, language=header), default)
    assert f"{language.code} {language.locale}" == found
    assert (language.translator.language, language.direction) == (language.code, "ltr")


def test_the_switch_stays_on_the_page_and_on_the_site() -> None:
    links = {link.code: link.href for link in language_links(visit("/offset/lnk_1", "a=x%20y&lang=de&b=<"), "de")}
    assert links["fr"] == "/offset/lnk_1?a=x%20y&b=<&lang=fr"
    assert list(links) == list(LANGUAGES)
    for path in ("//evil.example/a", "/\\evil.example", "///evil.example"):
        for link in language_links(visit(path), "en"):
            assert link.href.startswith("/")
            assert not link.href.startswith(("//", "/\\"))
    assert choice_cookie(visit(query="lang=de%0d%0aX: y")) is None


def test_a_message_is_formatted_and_falls_back_to_english() -> None:
    _ = translator("xx")
    assert _.language == "en"
    assert _("Pay %(amount)s, 100%%", amount="€5") == "Pay €5, 100%"
    one, many = "%(n)s certificate", "%(n)s certificates"
    assert [_.plural(one, many, n) for n in (0, 1, 2)] == ["0 certificates", "1 certificate", "2 certificates"]
    assert _.plural(one, many, 1000, n="1,000") == "1,000 certificates"
    assert _.text("") == ""
    german = translator("de")
    assert (german("Share"), german.text_of("part of the whole", "Share")) == ("Teilen", "Anteil")
    assert set(LanguageCode) == set(LANGUAGES)


def test_an_error_shows_its_values_as_the_language_writes_them() -> None:
    error = _Refused(
        "%(names)s: %(mass)s for %(money)s, %(n)s",
        names=NamesValue(("A", "B")),
        mass=MassValue(1_234_500_000),
        money=MoneyValue(150050, "EUR"),
        n=3,
    )
    assert str(error) == "A and B: 1234.5 t for 1500.50 EUR, 3"
    assert shown(error, translator("de")) == "A und B: 1.234,5\u00a0t for 1.500,50\u00a0€, 3"
    assert shown(_Refused("100 % wrong"), translator("de")) == "100 % wrong"


@pytest.mark.usefixtures("world")
async def test_a_page_is_in_the_language_of_its_visitor(browser: httpx.AsyncClient) -> None:
    english = await browser.get("/verify")
    assert '<html lang="en" dir="ltr" ' in english.text
    assert english.headers["content-language"] == "en"
    german = await browser.get("/verify", headers={"Accept-Language": "de-DE,de;q=0.9"})
    assert '<html lang="de" dir="ltr" ' in german.text
    assert german.headers["vary"] == "Accept-Language, Cookie"
    assert "set-cookie" not in german.headers, "only a choice sets a cookie"
    chosen = await browser.get("/verify?lang=fr", headers={"Accept-Language": "de"})
    assert '<html lang="fr" dir="ltr" ' in chosen.text
    assert "lang=fr; Path=/; SameSite=Lax" in chosen.headers.get_list("set-cookie")
    assert chosen.headers["cache-control"] == "no-store"
    kept = await browser.get("/verify", headers={"Accept-Language": "de"})
    assert '<html lang="fr" dir="ltr" ' in kept.text
    missing = await browser.get("/certificates/none?lang=nl")
    assert (missing.status_code, '<html lang="nl" dir="ltr" ' in missing.text) == (404, True)


@pytest.mark.usefixtures("world")
async def test_the_dashboard_is_english(browser: httpx.AsyncClient) -> None:
    for path in ("/dashboard/sign-in?lang=de", "/dashboard/invitations/none"):
        page = await browser.get(path, headers={"Accept-Language": "de"})
        assert '<html lang="en" dir="ltr" ' in page.text
        assert SWITCH not in page.text
        assert "lang=de" not in page.headers.get("set-cookie", "")
