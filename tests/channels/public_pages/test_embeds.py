"""The badge and the widget, which other sites show."""

from datetime import date

import httpx

from tests.channels.public_pages.scene import LIVE_PAGE, TEST_PAGE, logo, look, png, retire, set_up, words
from tests.channels.public_pages.test_preview import size_of
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages.embeds import BADGE_HEIGHT, BADGE_WIDTH, PNG_SCALE

WIDGET = "/widget/test/our-forest"


async def test_the_badge_is_an_image_that_other_sites_may_show(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    await retire(services, world.ours_test.scope, date(2026, 3, 1), 2_000_000)
    badge = await browser.get(f"{TEST_PAGE}/badge.svg")
    assert (badge.status_code, badge.headers["content-type"]) == (200, "image/svg+xml")
    assert badge.headers["content-security-policy"] == "default-src 'none'"
    assert badge.headers["cross-origin-resource-policy"] == "cross-origin"
    assert badge.headers["cache-control"].startswith("public, max-age=600")
    assert "set-cookie" not in badge.headers
    assert len(badge.content) < 60_000
    assert not any(word in badge.text for word in ("<script", "<foreignObject", "http://tonne", "https://tonne"))
    again = {"If-None-Match": badge.headers["etag"]}
    assert (await browser.get(f"{TEST_PAGE}/badge.svg", headers=again)).status_code == 304
    dark = await browser.get(f"{TEST_PAGE}/badge.svg?theme=dark")
    assert dark.content != badge.content
    assert (await browser.get(f"{TEST_PAGE}/badge.svg?theme=odd")).content == badge.content
    picture = await browser.get(f"{TEST_PAGE}/badge.png")
    assert size_of(picture.content) == (BADGE_WIDTH * PNG_SCALE, BADGE_HEIGHT * PNG_SCALE)
    await retire(services, world.ours_test.scope, date(2026, 2, 1), 2_000_000)
    assert (await browser.get(f"{TEST_PAGE}/badge.svg", headers=again)).status_code == 200, "it has changed"
    await set_up(api, slug="renamed")
    moved = await browser.get(f"{TEST_PAGE}/badge.svg?theme=dark")
    assert moved.headers["location"] == "/sustainability/test/renamed/badge.svg?theme=dark"


async def test_only_the_widget_may_be_framed_by_other_sites(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, title="Our <b>forest</b>", logo=logo(png()))
    await set_up(api.as_key(world.ours_live.key))
    await retire(services, world.ours_test.scope, date(2026, 3, 1), 2_000_000)
    widget = await browser.get(f"{WIDGET}?lang=de&theme=dark")
    assert (widget.status_code, widget.headers["x-robots-tag"]) == (200, "noindex")
    assert "frame-ancestors *" in widget.headers["content-security-policy"]
    assert "script-src" not in widget.headers["content-security-policy"]
    assert "set-cookie" not in widget.headers
    assert widget.headers["cache-control"].startswith("public, max-age=600")
    assert 'lang="de"' in widget.text
    assert 'class="theme-dark"' in widget.text
    assert "<script" not in widget.text
    assert "<b>" not in widget.text
    assert "2 t" in words(await look(browser, WIDGET))
    assert "Test mode." in words(await look(browser, WIDGET))
    assert "Nothing retired yet." in words(await look(browser, "/widget/our-forest"))
    for path in (TEST_PAGE, LIVE_PAGE, f"{TEST_PAGE}/certificates", "/verify", "/widget/nobody"):
        answer = await browser.get(path)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
