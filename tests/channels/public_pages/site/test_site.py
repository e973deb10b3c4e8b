"""The start page, pages of errors, the frame with its settings, robots.txt, icons and images for link previews."""

import io
import re
from pathlib import Path

import httpx
import msgspec
import pytest
from PIL import Image

from tests.support.clock import START
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.checkout.links.domain_waiting import WAITING
from tonne.channels.public_pages.site.routes import TEXTS
from tonne.platform.db.database import Database
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
LOGO = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="4"/></svg>'
OWN = re.compile(r'(?:src|href)="(https?://[^"]*|//[^"]*)"')


async def test_the_start_page_shows_who_sells_and_where_to_go(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for target in ("/verify", "/docs/", "/openapi.json", "/dashboard"):
        assert f'href="{target}"' in page.text
    assert '<form class="lookup" action="/verify"' in page.text
    assert "Forest mix" in page.text
    assert "Refrigerant destruction" not in page.text, "it is not on sale"
    assert 'content="noindex"' not in page.text
    assert set(OWN.findall(page.text)) == {"http://tonne.test/"}, "only its own canonical address"
    pictures = re.findall(r'<img[^>]* src="([^"]+)"', page.text)
    assert len(pictures) >= 6
    for path in pictures:
        assert (await browser.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/nowhere", "/sustainability", "/certificates", "//metrics", "/assets/none.css"])
async def test_people_b18_browsers_get_a_page_and_programs_json(browser: httpx.AsyncClient, path: str) -> None:
    page = await browser.get(f"http://tonne.test{path}", headers=HTML)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Page not found" in page.text
    assert 'href="/verify"' in page.text
    assert 'href="/"' in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for accept in ("*/*", "application/json", "image/png"):
        answer = await browser.get(f"http://tonne.test{path}", headers={"Accept": accept})
        assert answer.json()["error"]["error_code"] in {"route_not_found", "asset_not_found"}


async def test_errors_of_the_api_stay_json_and_other_methods_get_a_page(browser: httpx.AsyncClient) -> None:
    for path in ("/v1/nowhere", "/v1/orders", "/health/nothing"):
        assert (await browser.get(path, headers=HTML)).json()["error"]
    wrong = await browser.post("/robots.txt", headers=HTML)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert "Go back to the page you came from" in wrong.text
    german = await browser.get("/nirgends", headers={**HTML, "Accept-Language": "de"})
    assert '<html lang="de"' in german.text
    assert "/docs" not in german.text.partition("<main")[2].partition("</main>")[0], "that text is for programs"


async def test_crawlers_and_other_sites_find_what_they_look_for(browser: httpx.AsyncClient) -> None:
    robots = (await browser.get("/robots.txt")).text.splitlines()
    assert {"Disallow: /checkout/", "Disallow: /o/", "Disallow: /dashboard", "Allow: /"} <= set(robots)
    icon = await browser.get("/favicon.ico")
    assert icon.headers["content-type"] == "image/x-icon"
    assert Image.open(io.BytesIO(icon.content)).size == (48, 48)
    touch = await browser.get("/apple-touch-icon.png")
    assert Image.open(io.BytesIO(touch.content)).size == (180, 180)
    for kind in TEXTS:
        image = await browser.get(f"/social/{kind}.png")
        assert Image.open(io.BytesIO(image.content)).size == (1200, 630)
    assert (await browser.get("/social/other.png")).status_code == 404
    for path, kind in (("/", "site"), ("/verify", "verify")):
        page = (await browser.get(path)).text
        assert f'property="og:image" content="http://tonne.test/social/{kind}.png"' in page
        assert 'property="og:title"' in page


async def test_the_frame_has_the_operators_logo_and_links(
    populated_db: Database, settings: Settings, tmp_path: Path
) -> None:
    logo = tmp_path / "logo.svg"
    logo.write_bytes(LOGO)
    changes = {
        "terms_url": "https://example.com/terms",
        "imprint_url": "https://example.com/imprint",
        "seller_email": "hello@example.com",
        "logo_file": str(logo),
    }
    services = Services(populated_db, msgspec.structs.replace(settings, **changes), lambda: START)
    transport = httpx.ASGITransport(build_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        page = (await http.get("/verify")).text
        footer = page.partition("<footer")[2]
        assert '<a href="https://example.com/terms">Terms</a>' in footer
        assert '<a href="mailto:hello@example.com">Contact</a>' in footer
        assert "Privacy" not in footer
        source = re.search(r'<img class="own" src="([^"]+)" alt="Tonne"', page)
        assert source is not None
        shown = await http.get(source[1])
        assert (shown.content, shown.headers["content-type"]) == (LOGO, "image/svg+xml")
        assert shown.headers["content-security-policy"].startswith("default-src 'none'")
    async with populated_db.connection() as connection:
        assert WAITING[0] in ALL_WAITING
        parameters = WAITING[0].parameters(services.settings, START)
        assert await connection.fetch(WAITING[0].sql, *parameters) == [], "there is no live link"
        await connection.execute(
            "INSERT INTO offset_links (account_id, id, organisation_id, mode, title, created_at) "
            "SELECT id, 'lnk_1', organisation_id, mode, 'Trip', now() FROM accounts WHERE mode = 'live' LIMIT 1"
        )
        found = await connection.fetch(WAITING[0].sql, *parameters)
    assert [row["where"] for row in found] == ["TONNE_PRIVACY_URL is not set"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TERMS_URL", "http://example.com/terms", "must be an https URL"),
        ("PRIVACY_URL", "javascript:alert(1)", "must be an https URL"),
        ("CONTACT_URL", "not an address", "or an e-mail address"),
        ("LOGO_FILE", "/nowhere/logo.png", "cannot be read"),
        ("LOGO_FILE", __file__, "no SVG, PNG, WebP or JPEG file"),
    ],
)
def test_wrong_settings_of_the_frame_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings({f"TONNE_{name}": value})
