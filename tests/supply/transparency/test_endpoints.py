"""The log over HTTP (c2sp.org/tlog-tiles), read as a monitor does."""

import asyncpg
import httpx
import pytest

from tests.supply.transparency.scene import LogScene
from tonne.platform.db.database import Database
from tonne_verify.merkle import Range, leaf_hash
from tonne_verify.notes import Checkpoint, open_note
from tonne_verify.tiles import entries_path, root_plan, split_entries, tile_path

FOR_EVER = "public, max-age=31536000, immutable"


async def test_the_root_of_the_served_tiles_and_entries_is_that_of_the_checkpoint(
    scene: LogScene, browser: httpx.AsyncClient
) -> None:
    assert (await browser.get("/log/checkpoint")).status_code == 404
    await scene.certify()
    await scene.retire_many(598)
    await scene.publish_all()
    served = await browser.get("/log/checkpoint")
    assert served.headers["content-type"] == "text/plain; charset=utf-8"
    assert served.headers["cache-control"] == "public, max-age=2"
    keys = await scene.keys.verifier_keys("tonne.test/log")
    checkpoint = Checkpoint.parse(open_note(served.text, keys).text)
    assert checkpoint.size == 600
    plan = root_plan(600)
    tiles = {}
    for tile in plan.tiles:
        answer = await browser.get(f"/log/{tile_path(tile)}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, FOR_EVER)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-robots-tag"] == "noindex"
        tiles[tile] = answer.content
    assert plan.compute(tiles) == checkpoint.root
    tree = Range()
    for path in (entries_path(0), entries_path(1), entries_path(2, 88)):
        for entry in split_entries((await browser.get(f"/log/{path}")).content):
            tree.append(leaf_hash(entry))
    assert tree.root() == checkpoint.root


async def test_older_widths_are_served_and_nothing_beyond_the_checkpoint(
    scene: LogScene, browser: httpx.AsyncClient
) -> None:
    await scene.certify()
    await scene.retire_many(258)
    await scene.publish_all()
    older = (await browser.get("/log/tile/0/001.p/4")).content
    bundle = (await browser.get("/log/tile/entries/001.p/4")).content
    await scene.certify()
    await scene.append_all()
    served = {
        **dict.fromkeys(("tile/0/000", "tile/0/000.p/255", "tile/1/000.p/1", "tile/0/001.p/1", "1/tile/0/000"), 200),
        **dict.fromkeys(("tile/0/001.p/5", "tile/0/001", "tile/1/000.p/2", "tile/2/000.p/1", "tile/0/002.p/1"), 404),
        **dict.fromkeys(("tile/0/0", "tile/0/000.p/256", "tile/00/000", "tile/0/x000/000", "tile/64/000"), 404),
        **dict.fromkeys(("tile/entries/001.p/5", "tile/entries/001", "tile/-1/000", "2/tile/0/000", "x"), 404),
        **dict.fromkeys(("test/checkpoint", "test/tile/0/000", "2/checkpoint", "%00", "%ff/checkpoint"), 404),
    }
    for path, status in served.items():
        answer = await browser.get(f"/log/{path}")
        assert answer.status_code == status, path
        assert (answer.headers.get("cache-control") == FOR_EVER) == (status == 200), path
    scene.clock.advance(seconds=5)
    assert await scene.publish.run_once()
    assert len((await browser.get("/log/tile/0/001.p/6")).content) == 6 * 32
    assert (await browser.get("/log/tile/0/001.p/4")).content == older
    assert (await browser.get("/log/tile/entries/001.p/4")).content == bundle


async def test_a_full_tile_is_read_from_the_database_once(
    scene: LogScene, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.certify()
    await scene.retire_many(254)
    await scene.publish_all()
    paths = ("/log/tile/0/000", "/log/tile/entries/000")
    first = [(await browser.get(path)).content for path in paths]

    def refuse(_: Database) -> None:
        raise asyncpg.InterfaceError("a query")

    monkeypatch.setattr(Database, "connection", refuse)
    assert [(await browser.get(path)).content for path in paths] == first
    assert (await browser.get("/log/tile/1/000.p/1")).status_code != 200


async def test_the_page_shows_the_checkpoint(scene: LogScene, browser: httpx.AsyncClient) -> None:
    assert "There is no entry yet." in (await browser.get("/log/")).text
    await scene.certify()
    await scene.publish_all()
    page = await browser.get("/log/")
    assert scene.head.read() is not None
    assert (scene.head.read() or "").splitlines()[2].replace("+", "&#43;") in page.text.replace("+", "&#43;")
    assert 'href="/log/checkpoint"' in page.text
    assert "Transparenz-Log" in (await browser.get("/log/test/", headers={"Accept-Language": "de"})).text
    assert (await browser.get("/log")).headers["location"] == "/log/"
