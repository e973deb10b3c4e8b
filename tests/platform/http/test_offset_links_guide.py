"""The sample code in docs/offset-links.md, against a real server."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import httpx
import pytest

from tests.architecture.source import ROOT
from tests.channels.checkout.shopper import Shopper
from tests.channels.checkout.test_signed_links import CANONICAL, LINK, SECRET
from tests.platform.http.conftest import LiveServer
from tests.support.api_client import ApiClient
from tests.support.world import World

GUIDE = (ROOT / "docs" / "offset-links.md").read_text(encoding="utf-8")


@pytest.fixture
async def sample(live_server: LiveServer, world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of the guide."""
    monkeypatch.setitem(os.environ, "OFFSETS_URL", live_server.url)
    monkeypatch.setitem(os.environ, "OFFSETS_KEY", world.ours_test.key)
    connection = await asyncpg.connect(live_server.database_url)
    await connection.execute(
        "INSERT INTO redirect_hosts VALUES ($1, 'shop.example.com', now()) ON CONFLICT DO NOTHING",
        world.ours_test.scope.organisation_id,
    )
    await connection.close()
    [code] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/offset-links.md", "exec"), names)  # noqa: S102 - our own sample
    return names


@pytest.fixture
async def shopper(live_server: LiveServer) -> AsyncIterator[Shopper]:
    async with httpx.AsyncClient(base_url=live_server.url, timeout=30) as http:
        yield Shopper(http)


async def return_from(shopper: Shopper, address: str) -> dict[str, list[str]]:
    """Pay; returns the query of the redirect to the shop."""
    thanks = await shopper.pay(address)
    assert "Thank you" in thanks.text
    [target] = re.findall(r'href="(https://shop\.example\.com[^"]*)"', thanks.text)
    return parse_qs(urlsplit(target.replace("&amp;", "&")).query)


async def test_security_6_the_sample_ships_only_what_was_paid(
    live_api: ApiClient, sample: dict[str, Any], shopper: Shopper
) -> None:
    link = (await live_api.post("/v1/offset-links", {"title": "Shop"})).json()
    sale = await asyncio.to_thread(sample["create_checkout"], link["id"], "A-1", "1.5", "ann@example.com")
    assert await asyncio.to_thread(sample["create_checkout"], link["id"], "A-1", "1.5", "ann@example.com") == sale
    query = await return_from(shopper, urlsplit(sale["url"]).path)
    assert query["sale"] == ["A-1"]
    order = await asyncio.to_thread(sample["find_order"], query["temporary_id"][0])
    may_ship = sample["may_ship"]
    assert may_ship(order, sale)
    assert not may_ship(None, sale)
    for change in (
        {"external_id": "A-2"},
        {"quantity": "1.6"},
        {"total_cost": "9999.00"},
        {"total_cost": "0.01"},
        {"currency": "USD"},
    ):
        assert not may_ship(order, sale | change), change
    assert not may_ship(order | {"status": "placed"}, sale)
    assert not may_ship(order | {"external_id_verified": False}, sale)
    assert await asyncio.to_thread(sample["find_order"], "00000000-0000-4000-8000-000000000000") is None


async def test_security_6_the_sample_signs_links(live_api: ApiClient, sample: dict[str, Any], shopper: Shopper) -> None:
    link = (await live_api.post("/v1/offset-links", {"title": "Shop"})).json()
    query = {
        "quantity": "0.5",
        "external_id": "B-1/ü (x)!*'",
        "email": "ann+shop@example.com",
        "redirect_url": "https://shop.example.com/thanks?a=1&b=2",
    }
    address = sample["signed_link"](link["url"], link["secret"], query)
    page = await shopper.open(f"{urlsplit(address).path}?{urlsplit(address).query}")
    assert page.status_code == 200, page.text
    form = re.findall(r'name="(signed_query|form_token|bundle_id)"[^>]*value="([^"]*)"', page.text)
    fields = {name: value.replace("&amp;", "&") for name, value in form}
    answer = await shopper.http.post(f"/offset/{link['id']}", data=fields | {"bundle_id": _bundles(page)})
    assert answer.status_code == 303, answer.text
    returned = await return_from(shopper, answer.headers["location"])
    order = await asyncio.to_thread(sample["find_order"], returned["temporary_id"][0])
    assert (order["external_id"], order["external_id_verified"]) == (query["external_id"], True)
    assert (order["quantity"], order["email"]) == ("0.5", "ann+shop@example.com")
    forged = address.replace("quantity=0.5", "quantity=0.1")
    assert (await shopper.open(f"{urlsplit(forged).path}?{urlsplit(forged).query}")).status_code == 400


def _bundles(page: httpx.Response) -> list[str]:
    return re.findall(r'name="bundle_id" value="([^"]+)"', page.text)


def test_the_guide_has_the_test_vector() -> None:
    for text in (SECRET, LINK, CANONICAL):
        assert text in GUIDE
