"""Helpers for the tests of offset links."""

from typing import Any

import httpx

from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.platform.db.database import Database
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.redirect_hosts import allow_host, read_host

LINKS = "/v1/offset-links"


async def create(api: ApiClient, **settings: Any) -> dict[str, Any]:
    answer = await api.post(LINKS, {"title": "Offset your flight", **settings})
    assert answer.status_code == 201, answer.text
    link: dict[str, Any] = answer.json()
    assert link.pop("secret").startswith("lsec_"), "only this response has it"
    return link


async def put(api: ApiClient, link_id: str, body: Any, **headers: str) -> httpx.Response:
    return await api.http.put(f"{LINKS}/{link_id}", json=body, headers=api._headers(headers))


async def allow_shops(database: Database, world: World) -> None:
    """Make shop.example.com a redirect host of ours and evil.example one of theirs."""
    async with database.transaction() as tx:
        for tenant, host in ((world.ours_test, "shop.example.com"), (world.theirs_test, "evil.example")):
            await allow_host(tx, tenant.scope.organisation_id, read_host(host), utc_now())
