"""What a page publishes of the transparency log: the openings of its certificates, and where they are in it."""

import json
from typing import Any

import httpx
import pytest

from tests.channels.public_pages.scene import LIVE_PAGE, look, put, set_up, words
from tests.supply.retirements.shop import TONNE
from tests.supply.transparency.scene import LogScene
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH, ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne_verify.issuer import Issuer
from tonne_verify.report import Verdict
from tonne_verify.verify_file import verify_file

ADDRESS = f"{LIVE_PAGE}/openings.json"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock) -> LogScene:
    return LogScene(services, world, clock, Mode.LIVE)


async def listed(browser: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await browser.get(ADDRESS, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["access-control-allow-origin"] == "*"
    found: dict[str, Any] = answer.json()
    return found


async def test_a_page_publishes_the_openings_of_its_certificates(
    scene: LogScene, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    private = await scene.certify()
    numbers: list[str] = []
    for _ in range(3):
        scene.clock.advance(seconds=1)
        order = await scene.buy(world.ours_live.scope, 2 * TONNE, "wind")
        await scene.work()
        numbers.insert(0, str((await scene.certificate(order))["number"]))
    assert (await browser.get(ADDRESS)).status_code == 404
    await set_up(api.as_key(world.ours_live.key))
    assert (await listed(browser))["data"] == [], "no checkpoint covers them yet"
    page = words(await look(browser, f"/certificates/{numbers[0]}"))
    assert "enters the public log within a minute" in page
    assert "Independently verifiable" not in words(await look(browser, LIVE_PAGE))

    await scene.publish_all()
    first = await listed(browser, limit="2")
    second = await listed(browser, limit="2", after=first["next_cursor"])
    assert ([each["number"] for each in first["data"]], first["has_more"]) == (numbers[:2], True)
    assert ([each["number"] for each in second["data"]], second["has_more"]) == (numbers[2:], False)
    for each in (await listed(browser))["data"]:
        issued, *retirements = each["evidence"]
        assert issued["statement"]["subject"] == each["number"]
        assert [entry["statement"]["kind"] for entry in retirements] == ["retirement"]
        for entry in each["evidence"]:
            await scene.check_entry(entry)
    # The commands of the page.
    issuer = Issuer.parse((await browser.get("/.well-known/tonne-issuer.json")).content)
    document = (await browser.get(ADDRESS)).content
    report = verify_file("our-forest.json", document, issuer)
    assert [(each.name, each.verdict) for each in report.checks] == [
        ("log", "holds"),
        ("retirements", "holds"),
        ("witnesses", "not proven"),
        ("time", "not checked"),
        ("status", "not checked"),
    ]
    assert report.checks[1].sentence.startswith("6 t CO2e in all.")
    part = verify_file("", json.dumps(first).encode(), issuer)
    assert [each.name for each in part.checks[-2:]] == ["list", "status"]
    for tampered, failing in (
        (document.replace(b'"total_quantity":"2"', b'"total_quantity":"3"', 1), "log"),
        (document.replace(numbers[0].encode(), numbers[1].encode(), 1), "log"),
        # A certificate that is listed twice counts its tonnes twice.
        (json.dumps({**first, "data": [first["data"][0]] * 2}).encode(), "retirements"),
    ):
        assert tampered != document
        failed = [each.name for each in verify_file("", tampered, issuer).checks if each.verdict is Verdict.FAILS]
        assert failed == [failing]
    assert str((await scene.certificate(private))["number"]) not in (await browser.get(ADDRESS)).text
    assert (await browser.get(ADDRESS, params={"after": "x"})).status_code == 400
    assert (await browser.get(ADDRESS, params={"limit": "1000"})).status_code == 400

    for page, checks in (
        (await look(browser, f"/certificates/{numbers[0]}"), f"tonne-verify {numbers[0]}.pdf"),
        (await look(browser, LIVE_PAGE), "tonne-verify our-forest.json"),
    ):
        assert "Independently verifiable" in words(page)
        assert '<a href="/log/"><bdi>tonne.test/log</bdi></a>' in page
        assert f"{checks} --issuer tonne-issuer.json" in page
    position = issued["proof"].split("\n")[1].removeprefix("index ")
    last = words(await look(browser, f"/certificates/{each['number']}"))
    assert f"position {position} Checkpoint signed on" in last

    await put(api.as_key(world.ours_live.key), {"sections": ["timeline"]})
    assert (await browser.get(ADDRESS)).status_code == 404
    await put(api.as_key(world.ours_live.key), {"sections": ["certificates"], "enabled": False})
    assert (await browser.get(ADDRESS)).status_code == 404
