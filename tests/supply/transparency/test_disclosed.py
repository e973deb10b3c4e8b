"""Retirements that the operator shows to everybody: /log/retirements.jsonl."""

import json

import httpx
import msgspec
import pytest

from tests.supply.transparency.scene import LogScene
from tonne.platform.settings.settings import Settings
from tonne_verify.openings import Opening

PAGE = "/log/retirements.jsonl"


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    return msgspec.structs.replace(settings, log_discloses=request.param)


@pytest.mark.parametrize("settings", ["all"], indirect=True)
async def test_all_retirements_are_disclosed_in_pages_without_names(
    scene: LogScene, browser: httpx.AsyncClient
) -> None:
    assert (await browser.get(PAGE)).status_code == 404
    await scene.certify()
    await scene.retire_many(1_030)
    await scene.publish_all()
    answers = [await browser.get(f"{PAGE}{query}") for query in ("", "?page=0", "?page=1", "?page=2", "?page=x")]
    assert [each.status_code for each in answers] == [200, 200, 200, 404, 404]
    assert answers[0].content == answers[1].content
    assert [each.headers["cache-control"] for each in answers[1:3]] == ["public, max-age=86400", "public, max-age=2"]
    lines = [json.loads(line) for each in answers[1:3] for line in each.text.splitlines()]
    assert [each["position"] for each in lines] == [
        row["position"]
        for row in await scene.fetch("SELECT position FROM log_statements WHERE kind = 'retirement' ORDER BY position")
    ]
    entries = await scene.entries(await scene.log())
    assert all(Opening.from_json(each).commitment() == entries[each["position"]] for each in lines)
    assert "Ada Keller" not in "".join(each.text for each in answers)
    (log,) = (await browser.get("/.well-known/tonne-issuer.json")).json()["logs"]
    assert log["retirements"] == f"{log['url']}/retirements.jsonl"


@pytest.mark.parametrize("settings", ["", "Somebody"], indirect=True)
async def test_nothing_else_is_disclosed(scene: LogScene, browser: httpx.AsyncClient) -> None:
    await scene.certify()
    await scene.publish_all()
    answer = await browser.get(PAGE)
    (log,) = (await browser.get("/.well-known/tonne-issuer.json")).json()["logs"]
    if log["retirements"] is None:
        assert answer.status_code == 404
    else:
        assert (answer.status_code, answer.content) == (200, b"")
