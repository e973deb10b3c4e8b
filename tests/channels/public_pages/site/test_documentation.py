"""The documentation at /docs/: complete, without broken links, and without anything from other hosts."""

import gzip
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import httpx
import pytest

from tests.support.api_client import codes
from tonne.channels.public_pages.site import documentation
from tools.docs import background
from tools.docs import build as builder
from tools.docs.sources import DOCS, ROOT_PAGES

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
# Addresses of the service outside the site.
SERVICE = {"/docs/try/", "/openapi.json"}
OUTSIDE = re.compile(r"(?:https?:)?//[a-zA-Z0-9]")


@pytest.fixture(scope="module", autouse=True)
def built_site() -> None:
    """Only the tests that need it build it, unless its sources are unchanged."""
    builder.build()


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        # What the browser loads by itself.
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := found.get(name)) is not None}
        if tag == "a" and found.get("href") is not None:
            self.links.append(found["href"] or "")
        elif tag in {"script", "img", "iframe", "source"} and found.get("src"):
            self.loads.append(found["src"] or "")
        elif tag == "link" and found.get("rel") not in {"prev", "next"}:
            self.loads.append(found["href"] or "")
        if tag == "style" or any(name == "style" or name.startswith("on") for name in found):
            self.inline.append(f"{tag} {attrs}")
        if tag == "script" and "src" not in found and found.get("type") != "application/json":
            self.inline.append(tag)


def site_files() -> dict[str, str]:
    """The text files of the site by path."""
    files = {path.relative_to(builder.SITE).as_posix(): path for path in builder.SITE.rglob("*.gz")}
    return {name.removesuffix(".gz"): gzip.decompress(path.read_bytes()).decode() for name, path in files.items()}


def addresses() -> Iterator[tuple[str, str, Page]]:
    """The address, name and content of every page."""
    for name, text in site_files().items():
        if name.endswith(".html"):
            yield f"/docs/{name.removesuffix('index.html')}", name, Page(text)


async def test_pages_are_served_with_type_policy_and_cache_rules(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/docs")).headers["location"] == "/docs/"
    page = await browser.get("/docs/", headers={**HTML, "Accept-Encoding": "br, gzip"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (page.headers["content-encoding"], page.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert "Tonne documentation" in page.text
    policy = dict(rule.strip().split(" ", 1) for rule in page.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    plain = await browser.get("/docs/", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == page.content
    assert page.headers["cache-control"] == "public, no-cache"
    again = await browser.get("/docs/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await browser.head("/docs/")
    assert (head.status_code, head.content) == (200, b"")
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for reference in Page(page.text).loads:
        asset = await browser.get(urljoin("/docs/", reference))
        assert asset.status_code == 200, reference
        assert asset.headers["content-type"].startswith(kinds[reference.rpartition(".")[2]])
        if ".min." in reference:
            assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    sample = await browser.get("/docs/files/deploy/nginx/tonne.conf")
    assert sample.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await browser.get("/docs/search.json")).json()["items"]


async def test_people_find_pages_by_other_names_and_get_a_page_for_none(browser: httpx.AsyncClient) -> None:
    for name in ("orders", "orders.md", "guides/engineer", "guides/engineer.md"):
        moved = await browser.get(f"/docs/{name}")
        assert (moved.status_code, moved.headers["location"]) == (308, f"/docs/{name.removesuffix('.md')}/")
    for name in ("nowhere/", "..%2F..%2Fpyproject.toml", "%2e%2e/", "orders//", "index.html.gz", "/", "/evil.example/"):
        missing = await browser.get(f"/docs/{name}", headers=HTML)
        assert missing.status_code == 404, name
        assert missing.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in missing.headers["content-security-policy"]
    assert 'href="/docs/orders/"' in (await browser.get("/docs/nowhere/", headers=HTML)).text
    assert codes(await browser.get("/docs/nowhere/", headers={"Accept": "*/*"})) == ["asset_not_found"]


async def test_a_checkout_without_the_site_says_how_to_build_it(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "_files", dict)
    answer = await browser.get("/docs/")
    assert (answer.status_code, codes(answer)) == (404, ["documentation_not_built"])
    assert "make docs" in answer.json()["error"]["message"]


async def test_the_site_is_served_as_soon_as_it_is_built(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(documentation, "FOLDER", tmp_path / "site")
    monkeypatch.setattr(documentation, "BUILD_LOCK", tmp_path / "lock")
    with background.announced(documentation.BUILD_LOCK):
        waiting = await browser.get("/docs/", headers=HTML)
        assert (waiting.status_code, waiting.headers["retry-after"], waiting.headers["refresh"]) == (503, "5", "5")
        assert "reloads itself" in waiting.text
        assert codes(await browser.get("/docs/")) == ["documentation_being_built"]
    assert codes(await browser.get("/docs/")) == ["documentation_not_built"]
    shutil.copytree(builder.SITE, documentation.FOLDER)
    assert (await browser.get("/docs/", headers=HTML)).status_code == 200


def test_pages_load_nothing_from_other_hosts_and_have_nothing_inline() -> None:
    for address, _, page in addresses():
        assert [found for found in page.loads if OUTSIDE.match(found)] == [], address
        assert page.inline == [], address
    for name, text in site_files().items():
        if name.endswith(".css"):
            urls = re.findall(r"url\(\s*[\"']?([^)\"']{1,40})", text)
            assert all(url.startswith(("data:", "/assets/", "#")) for url in urls), name
        assert "tonne.invalid" not in text, name


def test_every_link_leads_to_a_page_and_an_anchor() -> None:
    pages = {address: page for address, _, page in addresses()}
    files = {f"/docs/{name}" for name in site_files()}
    broken = []
    for address, page in pages.items():
        for link in page.links:
            target = urlsplit(urljoin(f"https://tonne.test{address}", link))
            if target.netloc != "tonne.test" or target.path in SERVICE or target.scheme == "mailto":
                continue
            found = pages.get(target.path)
            anchor = unquote(target.fragment)
            if (found is None and target.path not in files) or (found and anchor and anchor not in found.ids):
                broken.append(f"{address}: {link}")
    assert broken == []


def test_every_page_is_in_the_navigation_and_can_be_searched() -> None:
    navigation = builder.CONFIG.read_text(encoding="utf-8")
    listed = set(re.findall(r'= "([\w/-]+\.md)"', navigation))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | set(ROOT_PAGES.values())
    assert written - listed == set(), "add it to nav in tools/docs/zensical.toml"
    assert listed - written == set()
    search = site_files()["search.json"]
    for name in written:
        address = name.removesuffix("index.md").removesuffix(".md")
        assert f'"{address}/' in search or f'"{address}"' in search, name


def test_drawings_share_their_style() -> None:
    """The site replaces it by the classes of its own style sheet."""
    styles = {re.search(r"<style>.*?</style>", path.read_text(encoding="utf-8"), re.DOTALL)[0] for path in _drawings()}  # type: ignore[index]
    assert len(styles) == 1
    classes = set(re.findall(r"^    \.(\w+) ", styles.pop(), re.MULTILINE))
    style = (DOCS / "stylesheets" / "site.css").read_text(encoding="utf-8")
    assert {name for name in classes if f".picture .{name} " not in style} == set()


def _drawings() -> list[Path]:
    return sorted((DOCS / "pictures").glob("*.svg"))
