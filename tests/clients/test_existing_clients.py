"""Requests and responses of clients that were written for comparable services."""

from datetime import UTC, datetime, timedelta

from tests.clients.shapes import WEBHOOK, WEBHOOKS, check
from tests.support.api_client import ApiClient, codes
from tonne.apps.wiring.app import Services

RECEIVER = "https://1.1.1.1/hook"


async def test_webhooks_are_a_plain_array(api: ApiClient) -> None:
    registered = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    check(registered, WEBHOOK)
    for query in ("", "?limit=100", "?limit=1&after=some-cursor"):
        listed = (await api.get(f"/v1/webhooks{query}")).json()
        check(listed, WEBHOOKS)
        assert [item["id"] for item in listed] == [registered["id"]], query


async def test_a_rotation_without_a_body_keeps_the_old_secret_for_a_day(api: ApiClient, services: Services) -> None:
    webhook = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    path = f"/v1/webhooks/{webhook['id']}/rotate-secret"
    rotated = await api.http.put(path, headers=api._headers({}))
    check(rotated.json(), WEBHOOK)
    async with services.database.connection() as connection:
        ends = await connection.fetchval("SELECT old_secret_until FROM webhooks")
    assert abs(ends - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=5)
    assert (await api.http.post(path, headers=api._headers({}))).status_code == 200
    refused = await api.http.put(path, headers=api._headers({}))
    assert (refused.status_code, codes(refused)) == (409, ["webhook_overlap_promised"])
    check((await api.post(path, {"overlap_s": 0})).json(), WEBHOOK)
