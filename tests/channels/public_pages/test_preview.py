"""The link preview image."""

import asyncio
import struct
from datetime import date
from typing import Any

import httpx
import pytest

from tests.channels.public_pages.scene import retire, set_up
from tests.supply.retirements.shop import TONNE
from tests.support.api_client import ApiClient
from tests.support.clock import START
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages import embeds as sustainability_preview
from tonne.channels.public_pages.embeds import Previews, preview_record, preview_version
from tonne.channels.public_pages.figures.drawings import MAX_CACHED, Drawings
from tonne.channels.public_pages.figures.figures import CountryTotal, Figures, ProjectTotal
from tonne.channels.public_pages.model import SustainabilityPage
from tonne.platform.values.context import Mode, Scope

PATH = "/sustainability/test/our-forest/preview.png"
RECORD: dict[str, Any] = {
    "title": "Our forest",
    "total": "1,234.5",
    "beneficiary": "Acme",
    "seller": "Tonne",
    "mode": "live",
    "where": "2 projects in 1 country",
}


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack_from(">II", picture, 16)
    return width, height


async def test_the_preview_has_the_size_that_other_sites_expect(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    answer = await browser.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert size_of(answer.content) == (1200, 630)
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert (await browser.get(PATH)).content == answer.content
    await retire(services, world.ours_test.scope, date(2026, 3, 1), TONNE)
    assert (await browser.get(PATH)).content != answer.content


async def test_only_an_enabled_page_has_a_preview(api: ApiClient, browser: httpx.AsyncClient) -> None:
    assert (await browser.get(PATH)).status_code == 404
    await set_up(api, enabled=False)
    assert (await browser.get(PATH)).status_code == 404
    await set_up(api)
    assert (await browser.get(PATH)).status_code == 200
    assert (await browser.get(PATH.replace("/test", ""))).status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        '#panic("x") $ * _ \\ @a <b> `c` "d" // e /* f',
        "x" * 200,
        "A title that goes on and on " * 7,
        "株式会社の気候変動対策",
        "شركة الاختبار والبيئة",
        "חברה לבדיקות",
        "\u202eabc\u2066\u0301\u0301",
        "ก" * 200,
    ],
)
async def test_any_title_can_be_rendered(text: str) -> None:
    record = {**RECORD, "title": text, "beneficiary": text, "seller": text[:60]}
    assert size_of(await Previews(Drawings()).picture(record)) == (1200, 630)


async def test_the_largest_total_fits() -> None:
    assert size_of(await Previews(Drawings()).picture({**RECORD, "total": "9,223,372,036,854.775807"})) == (1200, 630)


def figures(grams: int, *countries: str) -> Figures:
    projects = tuple(
        ProjectTotal(None, "P", "Wind", country, "", None, "", "", None, grams, 100.0) for country in countries
    )
    places = tuple(CountryTotal(country, grams, 1, None, 1.0) for country in dict.fromkeys(countries) if country)
    return Figures(None, (), grams, None, None, (), (), (), (), (), projects, (), places)


def test_the_preview_shows_what_the_page_shows() -> None:
    page = SustainabilityPage(
        Scope("org_1", "acc_1", Mode.TEST), "acme", True, "Acme 🌍 & the climate ®", "", (), None, START
    )
    assert preview_record(page, "Acme", figures(1_234_567_890, "Kenya", "Chile", "Kenya"), "Tonne") == {
        "title": "Acme & the climate ®",
        "total": "1,235\u00a0t",
        "beneficiary": "Acme",
        "seller": "Tonne",
        "mode": "test",
        "where": "3 projects in 2 countries",
    }
    assert preview_record(page, "Acme", figures(5, "Kenya"), "Tonne")["where"] == "1 project in 1 country"
    assert preview_record(page, "Acme", figures(5, ""), "Tonne")["where"] == "1 project"
    empty = preview_record(page, "Acme", figures(0), "Tonne")
    assert (empty["total"], empty["where"]) == ("0\u00a0t", "Nothing retired yet")
    assert preview_version(empty) != preview_version({**empty, "total": "1"})


class Drawing:
    """Replaces the renderer and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(sustainability_preview, "render_png", self.draw)

    def draw(self, _: object, record: dict[str, Any]) -> bytes:
        self.count += 1
        return str(record).encode()


async def test_concurrent_requests_render_a_preview_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch)
    previews = Previews(Drawings())
    pictures = await asyncio.gather(*(previews.picture(RECORD) for _ in range(50)))
    assert (drawing.count, len(set(pictures))) == (1, 1)
    await previews.picture({**RECORD, "total": "2"})
    assert drawing.count == 2
    await previews.picture(RECORD)
    assert drawing.count == 2


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch)
    previews = Previews(Drawings())
    for number in range(MAX_CACHED + 1):
        await previews.picture({**RECORD, "total": str(number)})
    await previews.picture({**RECORD, "total": str(MAX_CACHED)})
    assert drawing.count == MAX_CACHED + 1
    await previews.picture({**RECORD, "total": "0"})
    assert drawing.count == MAX_CACHED + 2, "the oldest made room"
